//! Group commit on a separate table: the effect of one write on the others, and of a failed commit on all.

use rusqlite::params;

use super::*;
use crate::clock::SystemSource;
use everhook_store::seal::Seal;
use everhook_store::store::Op;

const CHANGE: WriteAsk = WriteAsk { op: Op::Prune, class: WriteClass::Change, rows: 1 };

/// A writer on a table `note (text)`; a reference to another note is checked at the commit.
fn writer() -> Writer {
    let conn = Connection::new(rusqlite::Connection::open_in_memory().unwrap(), Seal::NONE);
    conn.pragma_update(None, "foreign_keys", true).unwrap();
    let schema = "create table note (id integer primary key, text blob not null, about integer,
        foreign key (about) references note (id) deferrable initially deferred)";
    conn.execute_batch(schema).unwrap();
    let clock = Arc::new(StoreClock::new(Arc::new(SystemSource::new())));
    Writer::start(conn, Arc::new(Ids::seeded(1)), clock, None, None).unwrap()
}

fn note(tx: &Tx<'_>, bytes: usize) -> Result<(), Fault> {
    tx.conn.execute("insert into note (text) values (zeroblob(?1))", [bytes as i64])?;
    Ok(())
}

/// Writes a valid note, and then an invalid one.
fn fail(tx: &Tx<'_>) -> Result<(), Fault> {
    note(tx, 1)?;
    tx.conn.execute("insert into note (id, text) values (1, null)", [])?;
    Ok(())
}

async fn count(writer: &Writer) -> i64 {
    let count = |tx: &Tx<'_>| Ok(tx.conn.query_row("select count(*) from note", [], |row| row.get(0))?);
    writer.write(CHANGE, count).await.unwrap()
}

/// Makes the following writes wait, so that they share a transaction.
async fn hold_up(writer: &Writer, until: std::sync::mpsc::Receiver<()>) {
    let wait = move |_: &Tx<'_>| {
        let _ = until.recv();
        Ok(())
    };
    // This write may share the transaction of the writes that wait for it, and its result.
    let _ = writer.write(CHANGE, wait).await;
}

#[tokio::test]
async fn a_job_that_panics_or_fails_is_undone_alone() {
    let writer = writer();
    let (go, until) = std::sync::mpsc::channel();
    let panics = writer.write(CHANGE, |tx| {
        note(tx, 1)?;
        if tx.now > Timestamp::default() {
            panic!("as it is meant to");
        }
        Ok(())
    });
    let fails = writer.write(CHANGE, fail);
    let works = || writer.write(CHANGE, |tx| note(tx, 1));
    let start = async { go.send(()).unwrap() };
    let (_, before, panicked, between, failed, after, ()) =
        tokio::join!(hold_up(&writer, until), works(), panics, works(), fails, works(), start);
    assert!(matches!(panicked, Err(StoreError::Unavailable { .. })), "{panicked:?}");
    assert!(matches!(failed, Err(StoreError::Refused { .. })), "{failed:?}");
    assert!(before.is_ok() && between.is_ok() && after.is_ok());
    assert_eq!(count(&writer).await, 3);
}

/// The first write has no savepoint: its transaction is begun again for the others.
#[tokio::test]
async fn the_first_job_of_a_transaction_is_undone_alone() {
    let writer = writer();
    let (go, until) = std::sync::mpsc::channel::<()>();
    let (begin, begun) = tokio::sync::oneshot::channel();
    let before = writer.write(CHANGE, move |_| {
        let _ = begin.send(());
        let _ = until.recv();
        Ok(())
    });
    let fails = writer.write(CHANGE, fail);
    let works = || writer.write(CHANGE, |tx| note(tx, 1));
    let transaction = async {
        begun.await.unwrap();
        tokio::join!(fails, works(), works(), async { go.send(()).unwrap() })
    };
    let (before, (failed, next, last, ())) = tokio::join!(before, transaction);
    assert!(matches!(failed, Err(StoreError::Refused { .. })), "{failed:?}");
    assert!(before.is_ok() && next.is_ok() && last.is_ok());
    assert_eq!(count(&writer).await, 2);
}

#[tokio::test]
async fn a_full_disk_is_told_and_forgotten_once_there_is_room() {
    let writer = writer();
    writer.write(CHANGE, |tx| note(tx, 1)).await.unwrap();
    let set_pages = |pages: i64| {
        writer.write(CHANGE, move |tx| {
            let mut pragma = tx.conn.prepare(&format!("pragma max_page_count = {pages}"))?;
            pragma.query_row([], |_| Ok(()))?;
            Ok(())
        })
    };
    set_pages(1).await.unwrap();
    let full = writer.write(CHANGE, |tx| note(tx, 1_000_000)).await;
    assert!(matches!(full, Err(StoreError::Full { op: Op::Prune, .. })), "{full:?}");
    set_pages(1_000_000).await.unwrap();
    writer.write(CHANGE, |tx| note(tx, 1_000_000)).await.unwrap();
    assert_eq!(count(&writer).await, 2);
}

#[tokio::test]
async fn a_commit_that_fails_for_no_known_reason_is_in_doubt_and_the_last() {
    let writer = writer();
    let (go, until) = std::sync::mpsc::channel();
    let dangling = writer.write(CHANGE, |tx| {
        tx.conn.execute("insert into note (text, about) values (x'', ?1)", params![999])?;
        Ok(())
    });
    let neighbour = writer.write(CHANGE, |tx| note(tx, 1));
    let start = async { go.send(()).unwrap() };
    let (_, dangling, neighbour, ()) = tokio::join!(hold_up(&writer, until), dangling, neighbour, start);
    assert!(dangling.unwrap_err().is_in_doubt());
    assert!(neighbour.unwrap_err().is_in_doubt());
    let refused = writer.write(CHANGE, |tx| note(tx, 1)).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused:?}");
    let source = std::error::Error::source(&refused).unwrap().to_string();
    assert!(source.starts_with("reopen needed"), "{source}");
}

#[test]
fn every_class_has_a_share_of_a_transaction() {
    let queue = WriteQueue::default();
    let capacity = Arc::new(Semaphore::new(10_000));
    let push = |class, rows| {
        let (reply, _) = oneshot::channel::<Result<(), StoreError>>();
        let permit = Arc::clone(&capacity).try_acquire_owned().unwrap();
        let work = Some(|_: &Tx<'_>| Ok(()));
        queue.push(
            WriteAsk { op: Op::Prune, class, rows },
            Box::new(Write { op: Op::Prune, work, done: None, reply, _permit: permit }),
        )
    };
    for _ in 0..10 {
        assert!(push(WriteClass::Append, 400) && push(WriteClass::Settle, 900) && push(WriteClass::Change, 1));
    }
    assert!(push(WriteClass::Maintenance, 5000));
    // Two appends, one settle, all changes, and the write that is larger than any share.
    assert_eq!(queue.take().len(), 2 + 1 + 10 + 1);
    assert_eq!(queue.take().len(), 2 + 1);
    queue.close();
    assert!(!push(WriteClass::Change, 1));
}
