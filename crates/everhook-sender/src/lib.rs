//! The only crate that opens outbound sockets.
