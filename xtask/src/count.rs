//! Runs a test command, shows its output, and counts the results.
//!
//! Parses the summaries of `cargo nextest` and `cargo test`. A command that fails without a failed test, for example
//! because the code does not compile, counts as one failure: the total never claims success for it.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::iter::Sum;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Counts {
    /// The count of a step that could not start.
    pub(crate) const FAILED_ONCE: Self = Self { passed: 0, failed: 1, skipped: 0 };
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |total, one| Self {
            passed: total.passed + one.passed,
            failed: total.failed + one.failed,
            skipped: total.skipped + one.skipped,
        })
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(formatter, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

/// Runs `cargo nextest`, which reports on stderr.
pub(crate) fn nextest(command: &mut Command) -> Result<Counts> {
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().context("could not start nextest")?;
    let output = child.stderr.take().context("nextest has no stderr")?;
    let counts = show_and_count(output, |line| eprintln!("{line}"), parse_nextest)?;
    Ok(settle(counts, child.wait()?))
}

/// Runs `cargo test`, which reports on stdout.
pub(crate) fn cargo_test(command: &mut Command) -> Result<Counts> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("could not start cargo")?;
    let output = child.stdout.take().context("cargo has no stdout")?;
    let counts = show_and_count(output, |line| println!("{line}"), parse_cargo_test)?;
    Ok(settle(counts, child.wait()?))
}

/// Runs `cargo test` for its counts alone.
pub(crate) fn cargo_test_quietly(command: &mut Command) -> Result<Counts> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("could not start cargo")?;
    let output = child.stdout.take().context("cargo has no stdout")?;
    let counts = show_and_count(output, |_| {}, parse_cargo_test)?;
    Ok(settle(counts, child.wait()?))
}

fn show_and_count(output: impl Read, show: fn(&str), parse: fn(&str) -> Option<Counts>) -> Result<Counts> {
    let mut found = Vec::new();
    for line in BufReader::new(output).split(b'\n') {
        // A failing test may print anything, also bytes that are not UTF-8.
        let line = line.context("could not read the output of the tests")?;
        let line = String::from_utf8_lossy(&line);
        show(&line);
        found.extend(parse(&without_colours(&line)));
    }
    Ok(found.into_iter().sum())
}

fn settle(mut counts: Counts, status: ExitStatus) -> Counts {
    if !status.success() && counts.failed == 0 {
        counts.failed = 1;
    }
    counts
}

/// Parses `Summary [ 0.5s] 4/5 tests run: 2 passed (1 slow), 1 failed, 1 timed out, 3 skipped`.
fn parse_nextest(line: &str) -> Option<Counts> {
    let results = line.trim_start().strip_prefix("Summary [")?.split_once(" run: ")?.1;
    Some(results.split(", ").filter_map(number_and_word).map(|(number, word)| count(number, word)).sum())
}

/// Parses `test result: FAILED. 2 passed; 1 failed; 3 ignored; 0 measured; 4 filtered out; finished in 0.01s`.
fn parse_cargo_test(line: &str) -> Option<Counts> {
    let results = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    Some(results.split("; ").filter_map(number_and_word).map(|(number, word)| count(number, word)).sum())
}

fn number_and_word(result: &str) -> Option<(u64, &str)> {
    let (number, word) = result.trim().split_once(' ')?;
    Some((number.parse().ok()?, word))
}

fn count(number: u64, word: &str) -> Counts {
    let none = Counts::default();
    match word.split(' ').next() {
        Some("passed") => Counts { passed: number, ..none },
        // "failed", "timed out" and "exec failed".
        Some("failed" | "timed" | "exec") => Counts { failed: number, ..none },
        Some("skipped" | "ignored" | "filtered") => Counts { skipped: number, ..none },
        _ => none,
    }
}

/// Removes colour codes: `ESC [ … m`.
fn without_colours(line: &str) -> String {
    let mut pieces = line.split("\x1b[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        plain.push_str(piece.split_once('m').map_or("", |(_, rest)| rest));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(counts: Option<Counts>, want: &str) {
        assert_eq!(counts.map(|counts| counts.to_string()).unwrap_or_default(), want);
    }

    #[test]
    fn a_summary_of_nextest_is_counted() {
        check(parse_nextest("     Summary [   0.1s] 5 tests run: 5 passed, 0 skipped"), "5 passed, 0 failed");
        check(
            parse_nextest(
                "Summary [ 9.1s] 8/9 tests run: 3 passed (1 slow, 1 leaky), 2 failed, 3 timed out, 4 skipped",
            ),
            "3 passed, 5 failed, 4 skipped",
        );
        check(parse_nextest("Summary [ 0.1s] 1 test run: 1 exec failed, 0 skipped"), "0 passed, 1 failed");
        check(parse_nextest("PASS [ 0.1s] Summary of a test"), "");
    }

    #[test]
    fn a_coloured_summary_is_counted() {
        let line = "\x1b[32;1m     Summary\x1b[0m [   0.1s] \x1b[1m2\x1b[0m tests run: \x1b[1m2\x1b[0m \x1b[32mpassed\x1b[0m, 0 skipped";
        check(parse_nextest(&without_colours(line)), "2 passed, 0 failed");
    }

    #[test]
    fn a_result_of_cargo_test_is_counted() {
        let line = "test result: FAILED. 2 passed; 1 failed; 3 ignored; 0 measured; 4 filtered out; finished in 0.01s";
        check(parse_cargo_test(line), "2 passed, 1 failed, 7 skipped");
        check(parse_cargo_test("test result_is_shown ... ok"), "");
    }

    #[test]
    fn a_command_that_fails_without_a_failed_test_counts_as_one_failure() {
        let counts = cargo_test(Command::new("false").arg("unused")).unwrap();
        assert_eq!(counts, Counts::FAILED_ONCE);
    }
}
