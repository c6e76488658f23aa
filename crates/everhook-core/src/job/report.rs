//! What a worker says of a job: how an attempt ended, how far it is, what came out, what it logged.
//!
//! Workers are other people's programs: everything is cut to a limit here, and nothing that is too long makes an attempt fail
//! that succeeded.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::limits::{
    ERROR_BYTES_MAX, LOG_LINE_BYTES_MAX, LOG_LINES_MAX, NOTE_BYTES_MAX, PROGRESS_TEXT_BYTES_MAX, RESULT_BYTES_MAX,
};
use crate::outcome::{Class, Outcome};

/// How an attempt of a job ended, in the words of whoever ran it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// It is done.
    Completed,
    /// It failed.
    Failed {
        /// How long the handler wants to wait at least.
        retry_after: Option<Duration>,
    },
    /// It is to be called again later, which uses no attempt.
    Snoozed {
        /// How much later.
        wait: Duration,
    },
    /// It took longer than it may.
    TimedOut,
    /// The handler panicked, and its worker lives.
    Panicked,
    /// The handler ended because someone cancelled the job.
    Cancelled,
    /// The worker is being stopped.
    Interrupted,
}

impl Report {
    /// What it means for the task. A worker that died says nothing: the sweep finds its tasks, as *abandoned*.
    pub const fn classify(self) -> (Class, Outcome) {
        match self {
            Report::Completed => (Class::Success, Outcome::Success),
            Report::Failed { retry_after } => (Class::Failed, Outcome::Failure { retry_after }),
            Report::Snoozed { wait } => (Class::Snoozed, Outcome::Snoozed { wait }),
            // One slow job says nothing about its neighbours: unlike a receiver that hangs, it does not hold the lane.
            Report::TimedOut => (Class::Timeout, Outcome::Failure { retry_after: None }),
            Report::Panicked => (Class::Panicked, Outcome::Failure { retry_after: None }),
            Report::Cancelled => (Class::Cancelled, Outcome::Cancelled),
            Report::Interrupted => (Class::Interrupted, Outcome::Interrupted),
        }
    }
}

/// How far a job is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    percent: u8,
    text: String,
}

/// More than all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 0 to 100")]
pub struct BadProgress;

impl Progress {
    /// So much of it is done. The text is cut to its limit.
    pub fn new(percent: i64, text: &str) -> Result<Progress, BadProgress> {
        let percent = u8::try_from(percent).ok().filter(|percent| *percent <= 100).ok_or(BadProgress)?;
        Ok(Progress { percent, text: clean(text, PROGRESS_TEXT_BYTES_MAX) })
    }

    /// 0 to 100.
    pub const fn percent(&self) -> u8 {
        self.percent
    }

    /// A text for people.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// What is kept of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptResult {
    /// All of it.
    Whole(Bytes),
    /// Nothing: it was this long. A part of a JSON text would be none, and the work is done all the same.
    TooLarge {
        /// How long it was.
        bytes: usize,
    },
}

/// Keeps a result up to its limit.
pub fn keep_result(result: Bytes) -> KeptResult {
    if result.len() > RESULT_BYTES_MAX {
        KeptResult::TooLarge { bytes: result.len() }
    } else {
        KeptResult::Whole(result)
    }
}

/// What an attempt of a job says of itself: where a delivery's attempt keeps the reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// What went wrong.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    error: String,
    /// What was logged: the last lines.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    log: VecDeque<String>,
}

impl Note {
    /// Cuts what a worker says to its limits: the beginning of the error, the last lines of the log.
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

    /// What went wrong; empty if nothing did.
    pub fn error(&self) -> &str {
        &self.error
    }

    /// The last lines that were logged.
    pub fn log(&self) -> impl Iterator<Item = &str> {
        self.log.iter().map(String::as_str)
    }

    /// What the attempt keeps.
    pub fn to_bytes(&self) -> Bytes {
        serde_json::to_vec(self).map(Bytes::from).unwrap_or_default()
    }

    /// Reads what an attempt keeps. One that was written by a sweep or a push is no note: it is shown as the error.
    pub fn from_bytes(bytes: &[u8]) -> Note {
        serde_json::from_slice(bytes).unwrap_or_else(|_| Note::new(&String::from_utf8_lossy(bytes), []))
    }
}

/// At most `max` bytes of a text, whole characters, without those that no PostgreSQL text can hold.
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
        assert_eq!(keep_result(whole.clone()), KeptResult::Whole(whole));
        assert_eq!(keep_result(Bytes::from(vec![b'1'; 65_537])), KeptResult::TooLarge { bytes: 65_537 });
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
