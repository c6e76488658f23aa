//! The history of a run as seen from outside: the requests of clients with their answers, and the requests to
//! receivers.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The kind of a create request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    Message,
    Job {
        /// The batch of the job.
        batch: Option<String>,
    },
}

/// One create request of a client, with all its repetitions.
#[derive(Clone, Debug)]
pub struct Operation {
    pub work: Work,
    /// The idempotency key, which is also in the payload.
    pub name: String,
    pub payload: String,
    /// All acknowledged ids in order. They are equal, or a promise is broken.
    pub told: Vec<String>,
    /// True if a different body was accepted under the same key.
    pub accepted_another_body: bool,
}

/// A batch that was acknowledged to a client.
#[derive(Clone, Debug)]
pub struct BatchOperation {
    pub id: String,
    /// Whether sealing was acknowledged to the client.
    pub sealed: bool,
}

/// A request that reached a receiver.
#[derive(Clone, Debug)]
pub struct Receipt {
    /// The time at which it was read.
    pub at: Duration,
    /// The number of the endpoint.
    pub endpoint: usize,
    /// The `webhook-id`.
    pub message: String,
    pub body: Vec<u8>,
    /// The status of the answer; 0 if the connection was closed instead.
    pub status: u16,
}

#[derive(Debug)]
pub struct History {
    started: Instant,
    operations: Mutex<Vec<Operation>>,
    batches: Mutex<Vec<BatchOperation>>,
    receipts: Mutex<Vec<Receipt>>,
    print: bool,
}

impl History {
    /// Creates an empty history; `print` shows events as they happen.
    pub fn new(print: bool) -> History {
        History {
            started: Instant::now(),
            operations: Mutex::default(),
            batches: Mutex::default(),
            receipts: Mutex::default(),
            print,
        }
    }

    /// The time since the start of the run.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Prints an event if asked to.
    pub fn event(&self, text: std::fmt::Arguments<'_>) {
        if self.print {
            eprintln!("{:>9.3} {text}", self.elapsed().as_secs_f64());
        }
    }

    pub(crate) fn operation(&self, operation: Operation) {
        self.operations.lock().expect("nothing panics while it holds this lock").push(operation);
    }

    pub(crate) fn batch(&self, batch: BatchOperation) {
        self.batches.lock().expect("nothing panics while it holds this lock").push(batch);
    }

    pub(crate) fn receipt(&self, receipt: Receipt) {
        self.receipts.lock().expect("nothing panics while it holds this lock").push(receipt);
    }

    pub fn operations(&self) -> Vec<Operation> {
        self.operations.lock().expect("nothing panics while it holds this lock").clone()
    }

    /// The batches that were acknowledged to clients.
    pub fn batches(&self) -> Vec<BatchOperation> {
        self.batches.lock().expect("nothing panics while it holds this lock").clone()
    }

    pub fn receipts(&self) -> Vec<Receipt> {
        self.receipts.lock().expect("nothing panics while it holds this lock").clone()
    }
}
