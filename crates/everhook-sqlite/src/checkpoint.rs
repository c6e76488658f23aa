//! Keeps the write-ahead log short without blocking commits for long.
//!
//! A separate thread copies the log into the file while the writer goes on. Then the writer copies the few pages that
//! were added meanwhile, so that the log can start again. SQLite's automatic checkpoint is disabled: it runs inside a
//! commit and hides its errors. Called by the writer's thread only.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

use rusqlite::{Connection, ErrorCode};
use tracing::{debug, warn};

use crate::open;

/// The growth of the log in pages before it is copied: 32 MiB, half of the size that is kept. A page that is written
/// many times in between is copied once.
const LOG_PAGES_STEP: u32 = 8192;

/// The writer's view of the copying thread.
pub(crate) struct Checkpoints {
    /// Pages in the log after the last commit, as SQLite reports them.
    log_pages: Arc<AtomicU32>,
    /// Pages in the log after the last copy.
    copied_pages: u32,
    start: SyncSender<()>,
    copied: Receiver<Result<(), rusqlite::Error>>,
    copying: bool,
    thread: JoinHandle<()>,
}

impl Checkpoints {
    /// Starts the thread, and observes the log of the writer's connection.
    pub(crate) fn start(file: &Path, writer: &mut Connection) -> Result<Checkpoints, open::Cause> {
        let log_pages = Arc::new(AtomicU32::new(0));
        let pages = Arc::clone(&log_pages);
        writer.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, count| {
            pages.store(u32::try_from(count).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))?;
        let conn = open::connect(file, open::ConnectionRole::Checkpoint)?;
        let (start, starts) = sync_channel(1);
        let (copies, copied) = sync_channel(1);
        let copy = move || {
            while starts.recv().is_ok() {
                if copies.send(checkpoint(&conn, "pragma wal_checkpoint(passive)")).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("everhook-checkpoint".into()).spawn(copy)?;
        Ok(Checkpoints { log_pages, copied_pages: 0, start, copied, copying: false, thread })
    }

    /// Starts a copy if the log has grown. Fails only if the disk fails.
    pub(crate) fn after_commit(&mut self, writer: &Connection) -> Result<(), rusqlite::Error> {
        let pages = self.log_pages.load(Ordering::Relaxed);
        if pages < self.copied_pages {
            self.copied_pages = 0; // The log has started again.
        }
        if self.copying {
            match self.copied.try_recv() {
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => {}
                Ok(copied) => copied?,
            }
            self.copying = false;
            self.copied_pages = pages;
            return checkpoint(writer, "pragma wal_checkpoint(passive)");
        }
        if pages >= self.copied_pages + LOG_PAGES_STEP {
            self.copying = self.start.try_send(()).is_ok();
        }
        Ok(())
    }

    /// Ends the thread. With a `writer`, copies everything and empties the log, when the store closes.
    pub(crate) fn finish(self, writer: Option<&Connection>) {
        let Checkpoints { start, copied, copying, thread, .. } = self;
        drop(start);
        if copying {
            let _ = copied.recv();
        }
        if thread.join().is_err() {
            warn!("the checkpoint thread panicked");
        }
        if let Some(writer) = writer
            && let Err(error) = checkpoint(writer, "pragma wal_checkpoint(truncate)")
        {
            warn!(
                error = &error as &dyn std::error::Error,
                "the last checkpoint failed; the next start repeats it: {error}"
            );
        }
    }
}

/// Copies the log as far as readers allow. A busy or full database is no failure: the log keeps its pages.
fn checkpoint(conn: &Connection, pragma: &str) -> Result<(), rusqlite::Error> {
    let copied = conn.query_row(pragma, [], |row| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)));
    match copied {
        Ok((log, copied)) => {
            debug!(log.pages = log, copied.pages = copied, "copied {copied} of {log} pages of the log");
            Ok(())
        }
        Err(error) => match error.sqlite_error_code() {
            Some(
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::DiskFull | ErrorCode::OutOfMemory,
            ) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "could not copy the log yet, it will be tried again: {error}"
                );
                Ok(())
            }
            _ => Err(error),
        },
    }
}
