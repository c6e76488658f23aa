//! Work that a transaction creates besides the requested changes: announcements of batches, and runs of schedules.
//!
//! The stores return it with their answers, so that the engine counts every message and job. Appends and enqueues need
//! none: their answers list each message and job.

use std::ops::AddAssign;

use crate::job::Enqueued;
use crate::lease::Appended;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    pub messages: usize,
    pub jobs: usize,
}

/// An answer, with the work that its transaction created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WithMade<T> {
    pub answer: T,
    pub made: Made,
}

impl Made {
    /// Counts the messages that an append accepted.
    pub fn messages(appended: &[Appended]) -> Made {
        let messages = appended.iter().filter(|answer| answer.is_accepted()).count();
        Made { messages, ..Made::default() }
    }

    /// Counts the jobs that an enqueue accepted.
    pub fn jobs(enqueued: &[Enqueued]) -> Made {
        let jobs = enqueued.iter().filter(|answer| matches!(answer, Enqueued::Accepted { .. })).count();
        Made { jobs, ..Made::default() }
    }

    /// Adds the work to an answer.
    pub fn with<T>(self, answer: T) -> WithMade<T> {
        WithMade { answer, made: self }
    }
}

impl<T> WithMade<T> {
    pub fn map<U>(self, answer: impl FnOnce(T) -> U) -> WithMade<U> {
        WithMade { answer: answer(self.answer), made: self.made }
    }
}

impl AddAssign for Made {
    fn add_assign(&mut self, other: Made) {
        self.messages += other.messages;
        self.jobs += other.jobs;
    }
}
