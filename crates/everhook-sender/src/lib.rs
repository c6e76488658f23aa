//! The only crate that opens outbound sockets.
//!
//! The path of a request: `targets` parses the URL once; `host` lends an idle connection, or `connect` opens one to a
//! permitted address; `link` exchanges request and reply under deadlines. The reply is returned as core's `Reply`.
//!
//! The sender never follows redirects, decompresses, retries, reads proxy settings from the environment, or sends to an
//! address that `egress` forbids. It interprets no status code and knows no task. The engine calls it.

pub mod egress;
pub mod sender;

mod clock;
mod connect;
mod failure;
mod host;
mod limits;
mod link;
mod proxy;
mod resolve;
mod socket;
mod targets;
mod tls;

pub use crate::egress::{BadUrl, Egress, HostPattern};
pub use crate::proxy::{BadProxy, Proxy};
pub use crate::sender::{Deadlines, Request, Sender, SenderConfig, SenderError};
pub use crate::tls::{BadMaterial, check_ca, check_identity};
