//! Floods that HTTP/2 makes possible.
