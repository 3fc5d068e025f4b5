//! Splitting a PEM file into its blocks, in every form that tools and editors leave behind.
//!
//! Own code rather than a library's iterator, because the refusals need what iterators skip: the
//! labels of unknown blocks, encryption headers, and the line at which something broke. Text
//! around the blocks, CRLF, indentation, a byte order mark and a missing last newline are fine.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// One block between a BEGIN and an END line.
pub struct Block {
    /// The text after BEGIN: `EC PRIVATE KEY`.
    pub label: String,
    /// The decoded content; empty when `encrypted`.
    pub der: Vec<u8>,
    /// The old OpenSSL form of encryption, announced by a header inside the block.
    pub encrypted: bool,
}

/// Why a file is not PEM.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPem {
    /// The file holds nothing.
    #[error("is empty")]
    Empty,
    /// DER or PKCS#12 in place of PEM.
    #[error(
        "is binary (DER or PKCS#12); convert it to PEM with `openssl x509 -inform der`, `openssl pkey -inform der` or `openssl pkcs12 -nodes`"
    )]
    Binary,
    /// An editor saved it in UTF-16.
    #[error("is UTF-16 text; save it as UTF-8")]
    Utf16,
    /// A block whose line ends are lost, as when a file goes through a variable unquoted.
    #[error("has a block that is on one line; its line ends were lost on the way")]
    OneLine,
    /// A block without its end, as in a file that is still being written.
    #[error(
        "has a {label} block that begins at line {line} and does not end; is the file cut off?"
    )]
    Unfinished {
        /// The text after BEGIN.
        label: String,
        /// The line of BEGIN, from 1.
        line: usize,
    },
    /// A block that is not base64.
    #[error("has a {label} block at line {line} that is not base64")]
    NotBase64 {
        /// The text after BEGIN.
        label: String,
        /// The line of BEGIN, from 1.
        line: usize,
    },
}

/// All blocks of a file, in order; none when it is text without any.
///
/// # Errors
/// One variant of [`NotPem`] for each way in which a file is damaged or of another form.
pub fn blocks(file: &[u8]) -> Result<Vec<Block>, NotPem> {
    let text = text_of(file)?;
    let mut found = Vec::new();
    let mut lines = text.lines().map(str::trim).zip(1..);
    while let Some((line, number)) = lines.next() {
        if line.starts_with("-----BEGIN ") && line.contains("-----END ") {
            return Err(NotPem::OneLine);
        }
        if let Some(label) = marker(line, "-----BEGIN ") {
            found.push(block(label, number, &mut lines)?);
        }
    }
    Ok(found)
}

/// The labels of blocks in one line, for a refusal.
pub fn labels(blocks: &[Block]) -> String {
    let all: Vec<_> = blocks.iter().map(|block| block.label.as_str()).collect();
    if all.is_empty() {
        "nothing".to_owned()
    } else {
        all.join(", ")
    }
}

fn block<'a>(
    label: &str,
    begin: usize,
    lines: &mut impl Iterator<Item = (&'a str, usize)>,
) -> Result<Block, NotPem> {
    let mut base64 = String::new();
    let mut encrypted = false;
    for (line, _) in lines {
        if marker(line, "-----END ") == Some(label) {
            let der = if encrypted {
                Vec::new()
            } else {
                STANDARD.decode(&base64).map_err(|_| NotPem::NotBase64 {
                    label: label.to_owned(),
                    line: begin,
                })?
            };
            return Ok(Block {
                label: label.to_owned(),
                der,
                encrypted,
            });
        }
        if line.starts_with("-----") {
            break;
        }
        // Headers inside a block: `Proc-Type: 4,ENCRYPTED`, `Bag Attributes` and the like.
        if line.contains(':') {
            encrypted |= line.contains("ENCRYPTED");
        } else {
            base64.extend(line.chars().filter(|c| !c.is_whitespace()));
        }
    }
    Err(NotPem::Unfinished {
        label: label.to_owned(),
        line: begin,
    })
}

/// The label after BEGIN or END. A whole block on one line has none: the text there would be a key,
/// and people see labels.
fn marker<'a>(line: &'a str, start: &str) -> Option<&'a str> {
    let label = line.strip_prefix(start)?.strip_suffix("-----")?;
    let is_label = label.len() <= 64 && !label.contains("-----");
    is_label.then_some(label)
}

fn text_of(file: &[u8]) -> Result<Cow<'_, str>, NotPem> {
    let file = file.strip_prefix(b"\xef\xbb\xbf").unwrap_or(file);
    if file.starts_with(b"\xff\xfe") || file.starts_with(b"\xfe\xff") {
        return Err(NotPem::Utf16);
    }
    if file.iter().all(u8::is_ascii_whitespace) {
        return Err(NotPem::Empty);
    }
    // Comments around the blocks may be in any old encoding, so bytes that are not UTF-8 are no
    // reason to refuse; a file that holds such bytes and no block at all is binary.
    let text = String::from_utf8_lossy(file);
    let broken = matches!(text, Cow::Owned(_)) || text.contains('\0');
    if broken && !text.contains("-----BEGIN ") {
        return Err(NotPem::Binary);
    }
    Ok(text)
}

#[cfg(test)]
#[path = "pem_tests.rs"]
mod tests;
