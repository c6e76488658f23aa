//! Progress of long work, on a terminal only.

use std::io::{IsTerminal, Write};

/// A line on stderr that is overwritten as the work goes on.
pub(crate) struct Progress {
    what: &'static str,
    is_shown: bool,
    percent: Option<u64>,
}

impl Progress {
    pub(crate) fn new(what: &'static str) -> Progress {
        Progress { what, is_shown: std::io::stderr().is_terminal(), percent: None }
    }

    /// Shows how much of the work is done.
    pub(crate) fn set(&mut self, done: u64, total: u64) {
        let percent = (u128::from(done) * 100).checked_div(u128::from(total)).map_or(100, |share| share as u64);
        if self.is_shown && self.percent != Some(percent) {
            self.percent = Some(percent);
            let mut stderr = std::io::stderr();
            // A terminal that is gone is no reason to stop the work.
            let _ = write!(stderr, "\r{} {:>3} %", self.what, percent);
            let _ = stderr.flush();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.percent.is_some() {
            let _ = writeln!(std::io::stderr());
        }
    }
}

/// Formats a number of bytes for people.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let (mut size, mut unit) = (count as f64 / 1024.0, UNITS[0]);
    for next in &UNITS[1..] {
        if size >= 1024.0 {
            (size, unit) = (size / 1024.0, next);
        }
    }
    format!("{size:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(20 << 30), "20.0 GiB");
        assert_eq!(bytes(5000 << 40), "5000.0 TiB");
    }
}
