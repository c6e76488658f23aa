//! Jobs in your own process: typed handlers on Everhook's store, without a server in between.
//!
//! A [`Worker`] leases jobs, runs your handlers and settles the results, with the server's own engine: retries,
//! timeouts, cancellation, takeover after a crash, and limits across all workers. A [`Client`] enqueues jobs, in its
//! own transactions or, with the feature `postgres`, in yours ([`Client::enqueue_within`]). Features: `postgres` and
//! `sqlite`, both on by default. A SQLite store belongs to one process.
//!
//! ```no_run
//! use everhook_worker::{Client, Context, JobError, Store, Worker};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Email {
//!     to: String,
//! }
//!
//! async fn send(email: Email, context: Context) -> Result<usize, JobError> {
//!     context.progress(50, "connecting");
//!     if !email.to.contains('@') {
//!         return Err(JobError::cancel("not an e-mail address"));
//!     }
//!     std::fs::write("/tmp/mail", &email.to)?; // Any error fails the attempt, which is retried.
//!     Ok(email.to.len())
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::postgres("postgres://localhost/everhook").await?;
//!
//! let client = Client::new(&store, "default").await?;
//! let mut job = client.job("email", "email.send", &Email { to: "a@example.com".to_owned() })?;
//! job.job.name = Some("welcome".to_owned());
//! client.enqueue(job).await?;
//!
//! let worker = Worker::new(store).register("email.send", send).concurrency("email", 8);
//! let stop = worker.stop_handle();
//! // Elsewhere, such as in a signal handler: stop.stop();
//! worker.run().await?;
//! # drop(stop);
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

mod client;
mod handler;
mod store;
mod worker;

pub use client::{Client, EnqueueError};
pub use everhook_core::id::JobId;
pub use everhook_core::job::{Job, Priority, RunAt, Unique};
pub use everhook_core::name::Name;
pub use everhook_core::retry::{Backoff, RetryPolicy};
pub use everhook_engine::run::handler::Context;
pub use everhook_store::error::StoreError;
pub use everhook_store::job::{Enqueued, NewJob};
pub use handler::JobError;
pub use store::{OpenError, Store};
pub use worker::{StartError, StopHandle, Worker};
