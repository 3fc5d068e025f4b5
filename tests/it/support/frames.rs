//! HTTP/2 by hand, for clients that do what no library would.

/// Preface and an empty SETTINGS frame: all that a client has to say before it misbehaves.
pub(crate) const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// A frame: length, type, flags, stream, and what it carries.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The headers of a request for localhost over https, as indexed and literal fields without a
/// table. `method` is 2 for GET, 3 for POST.
pub(crate) fn head(method: u8, path: &str) -> Vec<u8> {
    let mut block = vec![0x80 | method, 0x87, 0x04, path.len().try_into().unwrap()];
    block.extend(path.as_bytes());
    block.extend([0x01, 9]);
    block.extend(b"localhost");
    block
}

/// A header field of a new name.
pub(crate) fn field(name: &str, value: &str) -> Vec<u8> {
    let mut field = vec![0x00, name.len().try_into().unwrap()];
    field.extend(name.as_bytes());
    field.push(value.len().try_into().unwrap());
    field.extend(value.as_bytes());
    field
}
