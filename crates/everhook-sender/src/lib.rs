//! The only crate that opens outbound sockets.
//!
//! One request goes: `targets` reads the URL once, `host` lends a kept connection or `connect` makes one to a vetted
//! address, `link` carries the request over it under its deadlines, and the reply comes back as core's `Reply`.
//!
//! What it refuses to do: follow redirects, decompress, retry, read proxies from the environment, or send to an
//! address that `egress` forbids. It judges no status code and knows no task; the engine calls it.

pub mod egress;
pub mod sender;

mod clock;
mod connect;
mod failure;
mod host;
mod limits;
mod link;
mod resolve;
mod socket;
mod targets;
mod tls;

pub use crate::egress::{BadUrl, Egress};
pub use crate::sender::{Deadlines, Request, Sender, SenderConfig, SenderError};
