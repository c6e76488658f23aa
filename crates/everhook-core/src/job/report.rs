//! Reports of workers: results, progress, errors and log lines.
//!
//! Workers are customers' programs, so every text is cut to a limit. An oversized text never turns a successful attempt
//! into a failed one.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::id::{EnvironmentId, SERVER_ENVIRONMENT};
use crate::limits::{
    ERROR_BYTES_MAX, LOG_LINE_BYTES_MAX, LOG_LINES_MAX, NOTE_BYTES_MAX, OWN_RESULT_BYTES_MAX, PROGRESS_TEXT_BYTES_MAX,
    RESULT_BYTES_MAX,
};
use crate::outcome::{Class, Outcome};

/// The end of a job attempt, as its runner reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    Completed,
    Failed {
        /// Shortest delay that the handler asks for.
        retry_after: Option<Duration>,
    },
    /// The handler wants a later call, without using an attempt.
    Snoozed {
        wait: Duration,
    },
    TimedOut,
    /// The handler panicked; the worker process survived.
    Panicked,
    /// The handler stopped because the job was cancelled.
    Cancelled,
    /// The worker is shutting down.
    Interrupted,
}

impl Report {
    /// Maps the report to an outcome. A crashed worker reports nothing: the sweep finds its tasks and records them as
    /// *abandoned*.
    pub const fn classify(self) -> (Class, Outcome) {
        match self {
            Report::Completed => (Class::Success, Outcome::Success),
            Report::Failed { retry_after } => (Class::Failed, Outcome::Failure { retry_after }),
            Report::Snoozed { wait } => (Class::Snoozed, Outcome::Snoozed { wait }),
            // One slow job says nothing about other jobs of its lane. Unlike a hanging receiver, it does not hold the
            // lane.
            Report::TimedOut => (Class::Timeout, Outcome::Failure { retry_after: None }),
            Report::Panicked => (Class::Panicked, Outcome::Failure { retry_after: None }),
            Report::Cancelled => (Class::Cancelled, Outcome::Cancelled),
            Report::Interrupted => (Class::Interrupted, Outcome::Interrupted),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    percent: u8,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 0 to 100")]
pub struct BadProgress;

impl Progress {
    /// Checks the percentage. The text is cut to its limit.
    pub fn new(percent: i64, text: &str) -> Result<Progress, BadProgress> {
        let percent = u8::try_from(percent).ok().filter(|percent| *percent <= 100).ok_or(BadProgress)?;
        Ok(Progress { percent, text: clean(text, PROGRESS_TEXT_BYTES_MAX) })
    }

    pub const fn percent(&self) -> u8 {
        self.percent
    }

    pub fn text(&self) -> &str {
        &self.text
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptResult {
    Whole(Bytes),
    /// Not stored because of its size. A part of a JSON text would be invalid, and the job has succeeded all the same.
    TooLarge {
        bytes: usize,
    },
}

/// Applies the size limit to a result of a job in this environment.
pub fn keep_result(environment: EnvironmentId, result: Bytes) -> KeptResult {
    let max = if environment == SERVER_ENVIRONMENT { OWN_RESULT_BYTES_MAX } else { RESULT_BYTES_MAX };
    if result.len() > max { KeptResult::TooLarge { bytes: result.len() } } else { KeptResult::Whole(result) }
}

/// A worker's notes on one attempt, stored where a delivery's attempt has the reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    error: String,
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    log: VecDeque<String>,
}

impl Note {
    /// Cuts the texts to their limits: keeps the start of the error and the end of the log.
    pub fn new<'a>(error: &str, log: impl IntoIterator<Item = &'a str>) -> Note {
        let mut note = Note { error: clean(error, ERROR_BYTES_MAX), log: VecDeque::new() };
        let mut bytes = note.error.len();
        for line in log {
            let line = clean(line, LOG_LINE_BYTES_MAX);
            bytes += line.len();
            note.log.push_back(line);
            while note.log.len() > LOG_LINES_MAX || bytes > NOTE_BYTES_MAX {
                let Some(oldest) = note.log.pop_front() else { break };
                bytes -= oldest.len();
            }
        }
        note
    }

    /// Empty after a success.
    pub fn error(&self) -> &str {
        &self.error
    }

    pub fn log(&self) -> impl Iterator<Item = &str> {
        self.log.iter().map(String::as_str)
    }

    pub fn to_bytes(&self) -> Bytes {
        serde_json::to_vec(self).map(Bytes::from).unwrap_or_default()
    }

    /// Reads stored notes. Sweeps and pushes store plain text instead, which is shown as the error.
    pub fn from_bytes(bytes: &[u8]) -> Note {
        serde_json::from_slice(bytes).unwrap_or_else(|_| Note::new(&String::from_utf8_lossy(bytes), []))
    }
}

/// Returns at most `max` bytes, in whole characters, without characters that PostgreSQL text cannot hold.
fn clean(text: &str, max: usize) -> String {
    let mut kept: String = text.chars().take(max).filter(|char| !matches!(char, '\0'..='\u{8}')).collect();
    kept.truncate(kept.floor_char_boundary(max));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_a_percentage_with_a_text_of_bounded_length() {
        assert_eq!(Progress::new(101, ""), Err(BadProgress));
        assert_eq!(Progress::new(-1, ""), Err(BadProgress));
        let progress = Progress::new(100, &"ü\0".repeat(2000)).unwrap();
        assert_eq!((progress.percent(), progress.text()), (100, "ü".repeat(512).as_str()));
    }

    #[test]
    fn a_result_that_is_too_large_is_not_kept_and_its_length_is() {
        let whole = Bytes::from(vec![b'1'; 65_536]);
        let tenant = EnvironmentId(1);
        assert_eq!(keep_result(tenant, whole.clone()), KeptResult::Whole(whole));
        let larger = Bytes::from(vec![b'1'; 65_537]);
        assert_eq!(keep_result(tenant, larger.clone()), KeptResult::TooLarge { bytes: 65_537 });
        assert_eq!(keep_result(SERVER_ENVIRONMENT, larger.clone()), KeptResult::Whole(larger));
    }

    #[test]
    fn a_note_keeps_the_last_lines() {
        let lines: Vec<String> = (0..250).map(|n| format!("line {n}")).collect();
        let note = Note::new("it broke", lines.iter().map(String::as_str));
        assert_eq!(note.log().count(), 100);
        assert_eq!(note.log().last(), Some("line 249"));
        assert_eq!(Note::from_bytes(&note.to_bytes()), note);
    }

    #[test]
    fn a_note_is_bounded_whatever_a_worker_sends() {
        let long = "\u{1F980}".repeat(10_000);
        let note = Note::new(&long, std::iter::repeat_n(long.as_str(), 1000));
        assert_eq!(note.error().len(), ERROR_BYTES_MAX);
        assert!(note.log().all(|line| line.len() <= LOG_LINE_BYTES_MAX));
        assert!(note.error().len() + note.log().map(str::len).sum::<usize>() <= NOTE_BYTES_MAX);
        assert_eq!(Note::from_bytes(b"connection refused").error(), "connection refused");
        assert_eq!(Note::from_bytes(b"").error(), "");
    }

    #[test]
    fn what_a_worker_says_becomes_an_outcome() {
        let failed = Outcome::Failure { retry_after: None };
        assert_eq!(Report::Completed.classify(), (Class::Success, Outcome::Success));
        assert_eq!(Report::Failed { retry_after: None }.classify(), (Class::Failed, failed));
        assert_eq!(Report::TimedOut.classify(), (Class::Timeout, failed));
        assert_eq!(Report::Panicked.classify(), (Class::Panicked, failed));
        let wait = Duration::from_secs(9);
        assert_eq!(Report::Snoozed { wait }.classify(), (Class::Snoozed, Outcome::Snoozed { wait }));
    }
}
