//! Messages that people read, for the webhooks of chat platforms.
//!
//! Pure: no I/O, no clock, no randomness. [`post::post`] turns a message into the request of a platform, and
//! [`reply::judge`] reads its reply by the rule of the platform. The engine sends the request like every other
//! delivery. [`direct`] brings a message to single people, through the platform's API.

pub mod direct;
pub mod escape;
pub mod limits;
pub mod notice;
mod payload;
pub mod post;
pub mod reply;
mod signature;
pub mod template;

#[cfg(test)]
mod tests;
