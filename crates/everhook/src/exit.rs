//! Exit codes of all commands. `everhook --help` lists them, so that scripts can rely on them.

use std::fmt;
use std::process::ExitCode;

/// Text of the help about exit codes.
pub(crate) const HELP: &str = "Exit codes:
  0  success
  1  the command failed, or its answer is no
  2  wrong usage: an invalid argument, or a missing confirmation
  3  the named object does not exist
  4  the key is missing, invalid or not allowed to do this
  5  the server cannot be reached or does not answer";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Failed = 1,
    Usage = 2,
    NotFound = 3,
    Refused = 4,
    Unreachable = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// An error with an exit code of its own. Any other error exits with 1.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    text: String,
    /// The code of the server's answer, such as `jobs_disabled`; empty without one.
    code: String,
}

impl Failure {
    pub(crate) fn error(exit: Exit, text: impl Into<String>) -> anyhow::Error {
        Failure::coded(exit, text, "")
    }

    /// The error of an answer with a code.
    pub(crate) fn coded(exit: Exit, text: impl Into<String>, code: &str) -> anyhow::Error {
        anyhow::Error::new(Failure { exit, text: text.into(), code: code.to_owned() })
    }

    /// Whether the server gave this code as the reason.
    pub(crate) fn has_code(error: &anyhow::Error, code: &str) -> bool {
        error.chain().filter_map(|cause| cause.downcast_ref::<Failure>()).any(|failure| failure.code == code)
    }

    /// Returns the exit code of an error, whatever context was added to it.
    pub(crate) fn exit(error: &anyhow::Error) -> Exit {
        error.chain().find_map(|cause| cause.downcast_ref::<Failure>()).map_or(Exit::Failed, |failure| failure.exit)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

/// An error of the arguments that the parser cannot see.
pub(crate) fn usage(text: impl Into<String>) -> anyhow::Error {
    Failure::error(Exit::Usage, text)
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn the_exit_code_survives_added_context() {
        let error = Err::<(), _>(Failure::error(Exit::NotFound, "no job")).context("could not show it").unwrap_err();
        assert_eq!(Failure::exit(&error), Exit::NotFound);
        assert_eq!(format!("{error:#}"), "could not show it: no job");
        assert_eq!(Failure::exit(&anyhow::anyhow!("other")), Exit::Failed);
    }
}
