//! What happened, as the outside saw it: what clients asked and were told, and what receivers got.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// What a client wants accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// A message.
    Message,
    /// A job.
    Job {
        /// The batch it belongs to.
        batch: Option<String>,
    },
}

/// One thing that a client wanted accepted.
#[derive(Clone, Debug)]
pub struct Operation {
    /// What it is.
    pub work: Work,
    /// Its idempotency key; also in the payload.
    pub name: String,
    /// What it sent, byte for byte.
    pub payload: String,
    /// Every id it was told, in order; all the same, or a promise is broken.
    pub told: Vec<String>,
    /// Another body was accepted under the same key.
    pub accepted_another_body: bool,
}

/// A batch that a client was told of.
#[derive(Clone, Debug)]
pub struct BatchOperation {
    /// Its id.
    pub id: String,
    /// Whether the client was told that it is sealed.
    pub sealed: bool,
}

/// One request that reached a receiver.
#[derive(Clone, Debug)]
pub struct Receipt {
    /// When it was read.
    pub at: Duration,
    /// The endpoint, by number.
    pub endpoint: usize,
    /// The `webhook-id`.
    pub message: String,
    /// What came.
    pub body: Vec<u8>,
    /// What it was answered; 0 if the connection was closed instead.
    pub status: u16,
}

/// The history of a run.
#[derive(Debug)]
pub struct History {
    started: Instant,
    operations: Mutex<Vec<Operation>>,
    batches: Mutex<Vec<BatchOperation>>,
    receipts: Mutex<Vec<Receipt>>,
    print: bool,
}

impl History {
    /// An empty one; prints events as they happen if asked to.
    pub fn new(print: bool) -> History {
        History {
            started: Instant::now(),
            operations: Mutex::default(),
            batches: Mutex::default(),
            receipts: Mutex::default(),
            print,
        }
    }

    /// Since the run began.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Says what happens.
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

    /// What clients did.
    pub fn operations(&self) -> Vec<Operation> {
        self.operations.lock().expect("nothing panics while it holds this lock").clone()
    }

    /// Batches that clients were told of.
    pub fn batches(&self) -> Vec<BatchOperation> {
        self.batches.lock().expect("nothing panics while it holds this lock").clone()
    }

    /// What receivers got.
    pub fn receipts(&self) -> Vec<Receipt> {
        self.receipts.lock().expect("nothing panics while it holds this lock").clone()
    }
}
