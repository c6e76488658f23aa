//! Consent to commands that destroy something.
//!
//! On a terminal the command asks. Elsewhere it needs `--yes`. A protected context always asks for its name.

use std::io::{BufRead, IsTerminal, Write};

use clap::Args;

use crate::exit::{Exit, Failure, usage};
use crate::plain::plain;

/// The flag of commands that destroy something.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Consent {
    /// Do it without asking.
    #[arg(long, short = 'y')]
    yes: bool,
}

impl Consent {
    /// Asks whether to do `what`, such as "delete queue email", unless the flag has already answered.
    pub(crate) fn to(self, what: &str, protected: Option<&str>) -> anyhow::Result<()> {
        let question = match (self.yes, protected) {
            (true, None) => return Ok(()),
            (_, Some(context)) => Question { what, word: context, is_protected: true },
            (false, None) => Question { what, word: "yes", is_protected: false },
        };
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return Err(question.unanswerable());
        }
        question.ask(&mut std::io::stdin().lock(), &mut std::io::stderr())
    }
}

struct Question<'a> {
    what: &'a str,
    /// The answer that confirms.
    word: &'a str,
    is_protected: bool,
}

impl Question<'_> {
    fn unanswerable(&self) -> anyhow::Error {
        let Question { what, word, is_protected } = self;
        if *is_protected {
            return usage(format!("refused to {what}: the context {word} is protected, run the command on a terminal"));
        }
        usage(format!("refused to {what} without a confirmation: add --yes"))
    }

    fn ask(&self, input: &mut impl BufRead, output: &mut impl Write) -> anyhow::Result<()> {
        let Question { what, word, is_protected } = self;
        let reason = if *is_protected { format!("The context {word} is protected. ") } else { String::new() };
        write!(output, "{}", plain(&format!("{reason}This will {what}. Type {word} to continue: ")))?;
        output.flush()?;
        let mut answer = String::new();
        input.read_line(&mut answer)?;
        if answer.trim() == *word {
            Ok(())
        } else {
            Err(Failure::error(Exit::Failed, "not confirmed: nothing was changed"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(question: &Question<'_>, answer: &str) -> (String, bool) {
        let mut shown = Vec::new();
        let is_confirmed = question.ask(&mut answer.as_bytes(), &mut shown).is_ok();
        (String::from_utf8(shown).unwrap(), is_confirmed)
    }

    #[test]
    fn only_the_word_confirms() {
        let question = Question { what: "delete queue \u{1b}email", word: "yes", is_protected: false };
        let shown = "This will delete queue \\u001bemail. Type yes to continue: ".to_owned();
        assert_eq!(answered(&question, "yes\n"), (shown.clone(), true));
        for answer in ["", "\n", "y\n", "no\n"] {
            assert_eq!(answered(&question, answer), (shown.clone(), false), "{answer:?}");
        }
    }

    #[test]
    fn a_protected_context_wants_its_name() {
        let question = Question { what: "delete queue email", word: "prod", is_protected: true };
        let (shown, is_confirmed) = answered(&question, "yes\n");
        assert!(shown.starts_with("The context prod is protected.") && !is_confirmed, "{shown}");
        assert!(answered(&question, "prod\n").1);
        assert_eq!(Failure::exit(&question.unanswerable()), Exit::Usage);
    }
}
