//! The queue between log statements and the thread that writes them.
//!
//! Logging never blocks: the queue is bounded in bytes, and a line beyond the bound is dropped and counted. When the
//! writer can write again, it reports the number of dropped lines.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use prometheus_client::metrics::counter::Counter;
use tracing_subscriber::fmt::MakeWriter;

/// Bytes in the queue. The writer holds at most as many again.
const QUEUE_BYTES_MAX: usize = 1024 * 1024;
/// Interval of reports by the writer.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// How long the exit of the process waits for the last lines.
const CLOSE_DEADLINE: Duration = Duration::from_secs(1);

/// The writing end of the queue, used by log statements.
#[derive(Clone, Debug)]
pub(super) struct Lines(Arc<Queue>);

/// Reports about the log itself. Called without a lock, so that an implementation may log.
pub(super) trait Report: Send + 'static {
    /// Lines dropped since the last call.
    fn dropped(&self, lines: u64);

    /// Called about every `REPORT_INTERVAL`, with the time since the writer started.
    fn now_and_then(&self, now: Duration);
}

/// The writing thread. Dropping it waits, for a limited time, until the queue is written.
#[derive(Debug)]
pub(super) struct Writer(Arc<Queue>);

#[derive(Debug)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    ended: Condvar,
    dropped: Counter,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Dropped lines that have not been reported.
    dropped: u64,
    phase: Phase,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    /// The thread ends when everything is written.
    Closing,
    Ended,
}

impl Lines {
    /// Returns an empty queue that counts dropped lines.
    pub(super) fn new(dropped: Counter) -> Lines {
        let (changed, ended) = (Condvar::new(), Condvar::new());
        Lines(Arc::new(Queue { state: Mutex::default(), changed, ended, dropped }))
    }

    /// Starts the thread that writes to `output`.
    pub(super) fn write_to(&self, output: impl Write + Send + 'static, report: impl Report) -> anyhow::Result<Writer> {
        let queue = Arc::clone(&self.0);
        let run = move || queue.run(output, &report);
        thread::Builder::new().name("log".to_owned()).spawn(run).context("could not start the log thread")?;
        Ok(Writer(Arc::clone(&self.0)))
    }

    fn put(&self, line: &[u8]) {
        let mut state = self.0.lock();
        if state.bytes + line.len() > QUEUE_BYTES_MAX || state.phase == Phase::Ended {
            state.dropped += 1;
            self.0.dropped.inc();
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line.to_owned());
        self.0.changed.notify_one();
    }
}

impl Queue {
    fn run(&self, mut output: impl Write, report: &impl Report) {
        let (started, mut reported) = (now(), Duration::ZERO);
        let mut gets_on = true;
        loop {
            let state = self.lock();
            let idle = |state: &mut State| {
                let has_report = gets_on && state.dropped > 0;
                state.lines.is_empty() && !has_report && state.phase == Phase::Open
            };
            let waited = self.changed.wait_timeout_while(state, REPORT_INTERVAL, idle);
            let (mut state, _) = waited.expect("nothing panics while it holds this lock");
            if state.lines.is_empty() && state.phase == Phase::Closing {
                state.phase = Phase::Ended;
                self.ended.notify_all();
                return;
            }
            let lines = std::mem::take(&mut state.lines);
            state.bytes = 0;
            // The queue is empty now, so the report fits into it.
            let dropped = if gets_on { std::mem::take(&mut state.dropped) } else { 0 };
            drop(state);
            if dropped > 0 {
                report.dropped(dropped);
            }
            let failed = lines.iter().filter(|line| output.write_all(line).is_err()).count() as u64;
            gets_on = failed == 0;
            self.dropped.inc_by(failed);
            self.lock().dropped += failed;
            let elapsed = now().duration_since(started);
            if elapsed.saturating_sub(reported) >= REPORT_INTERVAL {
                reported = elapsed;
                report.now_and_then(elapsed);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.phase = Phase::Closing;
        self.0.changed.notify_one();
        // A stuck output must not keep the process from exiting.
        drop(self.0.ended.wait_timeout_while(state, CLOSE_DEADLINE, |state| state.phase != Phase::Ended));
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        self.clone()
    }
}

/// The formatter passes each line in one call.
impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.put(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "the log has no node with a clock")]
pub(super) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver, Sender};

    use super::*;

    /// An output that is read line by line, or not at all.
    struct Pipe {
        written: Sender<String>,
        room: Receiver<()>,
    }

    impl Write for Pipe {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.room.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
            let _ = self.written.send(String::from_utf8(line.to_owned()).unwrap());
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct ToLines(Lines);

    impl Report for ToLines {
        fn dropped(&self, lines: u64) {
            self.0.put(format!("{lines} dropped").as_bytes());
        }

        fn now_and_then(&self, _: Duration) {}
    }

    fn start() -> (Lines, Counter, Writer, Receiver<String>, Sender<()>) {
        let dropped = Counter::default();
        let lines = Lines::new(dropped.clone());
        let ((written, read), (make_room, room)) = (mpsc::channel(), mpsc::channel());
        let writer = lines.write_to(Pipe { written, room }, ToLines(lines.clone())).unwrap();
        (lines, dropped, writer, read, make_room)
    }

    #[test]
    fn nobody_waits_for_an_output_that_is_not_read_and_what_was_dropped_is_reported() {
        const LINE: usize = 1024;
        let (lines, dropped, _writer, read, room) = start();
        // Twice the bound, because the writer may hold as much as the queue.
        let put = 2 * QUEUE_BYTES_MAX / LINE + 10;
        for _ in 0..put {
            lines.put(&[b'x'; LINE]);
        }
        let lost = dropped.get();
        assert!(lost >= 10, "{lost} of {put} were dropped");
        for _ in 0..put as u64 - lost + 1 {
            room.send(()).unwrap();
        }
        let written = (0..put as u64 - lost).map(|_| read.recv().unwrap()).collect::<Vec<_>>();
        assert!(written.iter().all(|line| line.len() == LINE));
        assert_eq!(read.recv().unwrap(), format!("{lost} dropped"));
        lines.put(b"and on");
        room.send(()).unwrap();
        assert_eq!(read.recv().unwrap(), "and on");
    }

    #[test]
    fn the_end_waits_for_queued_lines() {
        let (lines, dropped, writer, read, room) = start();
        for number in 0..100 {
            lines.put(format!("{number}").as_bytes());
            room.send(()).unwrap();
        }
        drop(writer);
        assert_eq!(read.try_iter().count(), 100);
        assert_eq!(dropped.get(), 0);
    }

    #[test]
    fn the_end_does_not_wait_for_ever() {
        let (lines, _, writer, _read, _room) = start();
        lines.put(b"nobody reads this");
        drop(writer);
    }
}
