//! Background work for tests, whether they are async or not.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// A thread with its own event loop. Dropping the value ends everything on it.
#[derive(Debug)]
pub(crate) struct Background(Option<Runtime>);

impl Background {
    pub(crate) fn start() -> io::Result<Background> {
        Builder::new_multi_thread().worker_threads(1).enable_all().build().map(|runtime| Background(Some(runtime)))
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime().spawn(work);
    }

    /// Enters the event loop for a short call, such as opening a port, from a thread without one.
    pub(crate) fn enter(&self) -> tokio::runtime::EnterGuard<'_> {
        self.runtime().enter()
    }

    fn runtime(&self) -> &Runtime {
        self.0.as_ref().expect("only `drop` takes it")
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // The shutdown must not wait, because the owner may be inside another event loop.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
