use std::net::TcpStream;

use super::*;

#[tokio::test]
async fn a_taken_port_is_told_with_the_flag_to_change() {
    let any = "127.0.0.1:0".parse().unwrap();
    let first = bind(any, "--listen").unwrap();
    let taken = first.local_addr().unwrap();
    let error = bind(taken, "--admin-listen").unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot listen on {taken}: another program listens there; choose another address with --admin-listen"
        )
    );
}

#[tokio::test]
async fn without_ipv6_all_addresses_are_those_of_ipv4_and_nothing_else_is_replaced() {
    let no_ipv6 = |address: SocketAddr| match address {
        SocketAddr::V4(_) => listen(address),
        SocketAddr::V6(_) => Err(io::Error::from_raw_os_error(97)),
    };
    let all = bind_by(no_ipv6, "[::]:0".parse().unwrap(), "--listen").unwrap();
    assert!(all.local_addr().unwrap().ip() == Ipv4Addr::UNSPECIFIED);
    let one = bind_by(no_ipv6, "[::1]:0".parse().unwrap(), "--listen");
    assert!(
        one.unwrap_err()
            .to_string()
            .starts_with("cannot listen on [::1]:0")
    );
}

#[tokio::test]
async fn all_addresses_are_reached_over_ipv4_with_ipv6_or_without() {
    let listener = bind("[::]:0".parse().unwrap(), "--listen").unwrap();
    let port = listener.local_addr().unwrap().port();
    TcpStream::connect(("127.0.0.1", port)).unwrap();
}
