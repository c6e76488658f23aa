//! Transactions: sending of statements, and the certainty about their result after a failure.
//!
//! Statements are prepared once per connection, or sent unnamed behind a pooler and in a transaction of the caller. A
//! pipeline is prepared as a whole, then sent in order without waiting in between. A transaction that does not reach
//! its end closes its connection, whether a statement failed, exceeded its deadline, or was dropped by its caller. The
//! server then rolls back, and no open transaction returns to the pool.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{Object, Pool};
use everhook_core::time::Timestamp;
use everhook_store::seal::Seal;
use everhook_store::sql::answer::{Pipeline, ReturnedRows as _};
use everhook_store::sql::cell::FromCells;
use everhook_store::sql::statement::{Call, Statement, Text};
use everhook_store::statement;
use futures_util::TryStreamExt as _;
use futures_util::future::{BoxFuture, try_join, try_join_all};
use tokio::time::timeout;
use tokio_postgres::{Client, Error, RowStream};

use crate::connection::{BEGIN, BEGIN_POOLED};
use crate::error::Fault;
use crate::tenant::{self, SetTenant};
use crate::value::{Answered, Cursor, params, typed, types};

/// The deadline of a statement that does not commit.
pub(crate) const STATEMENT_WAIT: Duration = Duration::from_secs(4);

statement! {
    pub(crate) Now = ("now", "select everhook.now_us()") {} -> Option<Timestamp>;
}

/// A read of the clock returns a row, unless the statement was left out.
pub(crate) const NO_TIME: Fault = Fault::Contended("the clock returned no row");

/// The pool of connections, and the way to send statements.
#[derive(Clone)]
pub(crate) struct Database {
    pub(crate) pool: Pool,
    /// Connections for reads of one environment, whose role sees its rows only.
    pub(crate) tenants: Option<Pool>,
    pub(crate) pooler: bool,
    /// The keys of secrets in the rows.
    pub(crate) seal: Seal,
}

impl Database {
    pub(crate) async fn now(&self) -> Result<Timestamp, Fault> {
        self.read(Now {}).await?.ok_or(NO_TIME)
    }

    /// Takes a connection for a new transaction.
    pub(crate) async fn tx(&self) -> Result<Tx<'static>, Fault> {
        self.tx_from(&self.pool).await
    }

    async fn tx_from(&self, pool: &Pool) -> Result<Tx<'static>, Fault> {
        let client = pool.get().await.map_err(Fault::NoConnection)?;
        let mode = if self.pooler { Mode::Unnamed } else { Mode::Named };
        let (source, seal) = (Source::Pooled(Some(client)), self.seal.clone());
        Ok(Tx { source, seal, mode, end: End::Commit, ended: AtomicBool::new(false) })
    }

    /// Runs reads without a transaction. Reads of one environment see its rows only, if there is a role for them.
    pub(crate) fn read<'t, P: Pipeline<'t> + 't>(&'t self, reads: P) -> Sent<'t, P::Answer> {
        let mut calls = calls(reads);
        Box::pin(async move {
            let tenant = tenant::current().zip(self.tenants.as_ref());
            let tx = self.tx_from(tenant.map_or(&self.pool, |(_, pool)| pool)).await?;
            if let Some((environment, _)) = tenant {
                // In the same round trip. If it failed, the replies to the reads would not be used.
                calls.insert(0, Some(SetTenant { environment }.call()));
            }
            let mut replies = tx.exchange(&calls).await?.into_iter();
            tx.set_ended();
            if tenant.is_some() {
                replies.next();
            }
            P::read(&mut replies)
        })
    }

    /// Runs a write that commits by itself. It has no deadline, and a lost reply leaves it in doubt.
    pub(crate) fn write<'t, S: Statement + 't>(&'t self, write: S) -> Sent<'t, S::Answer> {
        let call = write.call();
        Box::pin(async move {
            let tx = self.tx().await?;
            let prepared = tx.prepare(&call).await?;
            let answered = send(tx.client(), &prepared, &call, &tx.seal).await.map_err(Fault::commit);
            // A statement that undid itself leaves the connection usable.
            if matches!(answered, Ok(_) | Err(Fault::Undone)) {
                tx.set_ended();
            }
            answered?.read()
        })
    }
}

/// The future answer of statements, sent when it is first polled. Boxed, so that no lifetime of a statement is part of
/// the caller's future: the compiler could not prove that such a future is `Send`.
pub(crate) type Sent<'t, A> = BoxFuture<'t, Result<A, Fault>>;

/// A transaction, or a connection for one that has not begun.
pub(crate) struct Tx<'a> {
    source: Source<'a>,
    seal: Seal,
    mode: Mode,
    end: End,
    ended: AtomicBool,
}

/// The connection of a transaction.
#[expect(clippy::large_enum_variant, reason = "one lives per transaction, and most have the largest variant")]
enum Source<'a> {
    /// A connection of its own; none once it was closed.
    Pooled(Option<Object>),
    /// The connection of the transaction that it is a part of.
    Part(&'a Object),
    /// The caller's connection.
    Caller(&'a Client),
}

/// The way to send statements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Prepared once per connection.
    Named,
    /// Sent with their types, for one use.
    Unnamed,
}

/// The end of a transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Its last writes commit it.
    Commit,
    /// It is a part of another transaction, which commits later.
    Open,
}

/// A statement that is ready to be sent.
pub(crate) enum Prepared {
    Named(tokio_postgres::Statement),
    Unnamed,
}

impl<'a> Tx<'a> {
    /// Wraps the caller's own transaction as a part.
    pub(crate) fn within(transaction: &'a tokio_postgres::Transaction<'_>, seal: &Seal) -> Tx<'a> {
        let (source, seal) = (Source::Caller(transaction.client()), seal.clone());
        Tx { source, seal, mode: Mode::Unnamed, end: End::Open, ended: AtomicBool::new(false) }
    }

    /// Returns a view of this transaction that neither begins nor ends it.
    pub(crate) fn part(&self) -> Tx<'_> {
        let source = match &self.source {
            Source::Pooled(object) => Source::Part(opened(object)),
            Source::Part(object) => Source::Part(object),
            Source::Caller(client) => Source::Caller(client),
        };
        Tx { source, seal: self.seal.clone(), mode: self.mode, end: End::Open, ended: AtomicBool::new(false) }
    }

    /// Whether it begins and ends by itself.
    pub(crate) fn is_whole(&self) -> bool {
        self.end == End::Commit
    }

    /// Begins, unless it is a part, and reads in the same round trip. Not for writes: if `begin` failed, they would
    /// commit by themselves.
    pub(crate) fn begin<'t, P: Pipeline<'t> + 't>(&'t self, reads: P) -> Sent<'t, P::Answer> {
        if self.end == End::Open {
            return self.run(reads);
        }
        let calls = calls(reads);
        Box::pin(async move {
            let begin = if self.mode == Mode::Unnamed { BEGIN_POOLED } else { BEGIN };
            let prepared = self.prepare_all(&calls).await?;
            let sent = try_join(self.client().batch_execute(begin), self.send_all(&prepared, &calls));
            let ((), replies) = within(sent).await?;
            P::read(&mut replies.into_iter())
        })
    }

    /// Begins, unless it is a part, and returns the time.
    pub(crate) async fn begin_now(&self) -> Result<Timestamp, Fault> {
        self.begin(Now {}).await?.ok_or(NO_TIME)
    }

    /// Sends statements and waits for their answers.
    pub(crate) fn run<'t, P: Pipeline<'t> + 't>(&'t self, statements: P) -> Sent<'t, P::Answer> {
        let calls = calls(statements);
        Box::pin(async move { P::read(&mut self.exchange(&calls).await?.into_iter()) })
    }

    /// Sends one statement, and decodes its rows while the server produces the next ones.
    pub(crate) fn stream<'t, R, S>(&'t self, statement: S) -> Sent<'t, Vec<R>>
    where
        S: Statement<Answer = Vec<R>> + 't,
        R: FromCells + Send + 't,
    {
        let call = statement.call();
        Box::pin(async move {
            let prepared = self.prepare(&call).await?;
            let mut read_all = Vec::new();
            let reading = async {
                let mut rows = pin!(open(self.client(), &prepared, &call).await.map_err(Fault::statement)?);
                while let Some(row) = rows.try_next().await.map_err(Fault::statement)? {
                    read_all.push(R::read(&mut Cursor::new(&row, call.text.name(), &self.seal), "1st")?);
                }
                Ok(())
            };
            timeout(STATEMENT_WAIT, reading).await.map_err(|_| Fault::Slow)??;
            Ok(read_all)
        })
    }

    /// Sends statements without parameters.
    pub(crate) async fn run_text(&self, sql: &str) -> Result<(), Fault> {
        within(self.client().batch_execute(sql)).await
    }

    pub(crate) async fn now(&self) -> Result<Timestamp, Fault> {
        self.run(Now {}).await?.ok_or(NO_TIME)
    }

    /// Sends the last statements. Unless it is a part, the commit follows in the same round trip and without a
    /// deadline.
    ///
    /// If a statement fails, the server turns the commit into a rollback. The driver does not report that, but it
    /// reports the statement's error. So the transaction is committed exactly if every statement succeeded.
    pub(crate) fn finish<'t, P: Pipeline<'t> + 't>(&'t self, writes: P) -> Sent<'t, P::Answer> {
        if self.end == End::Open {
            return self.run(writes);
        }
        let calls = calls(writes);
        Box::pin(async move {
            let prepared = self.prepare_all(&calls).await?;
            let sent = try_join(self.send_all(&prepared, &calls), self.client().batch_execute("commit")).await;
            let (replies, ()) = sent.map_err(Fault::commit)?;
            self.set_ended();
            P::read(&mut replies.into_iter())
        })
    }

    pub(crate) async fn commit(&self) -> Result<(), Fault> {
        self.finish(()).await
    }

    pub(crate) async fn roll_back(&self) -> Result<(), Fault> {
        self.run_text("rollback").await?;
        self.set_ended();
        Ok(())
    }

    /// Lets the server plan statements by running each once without rows.
    pub(crate) async fn plan(&self, texts: impl Iterator<Item = &'static Text>) -> Result<(), Fault> {
        let calls: Vec<Option<Call<'_>>> = texts.map(|text| Some(Call::idle(text))).collect();
        let prepared = try_join_all(calls.iter().flatten().map(|call| self.prepare(call))).await?;
        let prepared: Vec<Option<Prepared>> = prepared.into_iter().map(Some).collect();
        self.begin(()).await?;
        within(self.send_all(&prepared, &calls)).await?;
        self.roll_back().await
    }

    async fn exchange(&self, calls: &[Option<Call<'_>>]) -> Result<Vec<Option<Answered>>, Fault> {
        let prepared = self.prepare_all(calls).await?;
        within(self.send_all(&prepared, calls)).await
    }

    /// Prepares statements one after the other, all of them before the first is sent: otherwise their order would be
    /// lost.
    async fn prepare_all(&self, calls: &[Option<Call<'_>>]) -> Result<Vec<Option<Prepared>>, Fault> {
        let mut prepared = Vec::with_capacity(calls.len());
        for call in calls {
            prepared.push(match call {
                Some(call) => Some(self.prepare(call).await?),
                None => None,
            });
        }
        Ok(prepared)
    }

    async fn prepare(&self, call: &Call<'_>) -> Result<Prepared, Fault> {
        let object = match (&self.source, self.mode) {
            (Source::Caller(_), _) | (_, Mode::Unnamed) => return Ok(Prepared::Unnamed),
            (Source::Pooled(object), Mode::Named) => opened(object),
            (Source::Part(object), Mode::Named) => object,
        };
        within(object.prepare_typed_cached(call.sql(), &types(call.text))).await.map(Prepared::Named)
    }

    /// Sends calls in order: a request is sent when its future is first polled, and a short list is polled from its
    /// start.
    async fn send_all(
        &self,
        prepared: &[Option<Prepared>],
        calls: &[Option<Call<'_>>],
    ) -> Result<Vec<Option<Answered>>, Error> {
        let mut sent = Vec::with_capacity(calls.len());
        for (prepared, call) in prepared.iter().zip(calls) {
            sent.push(async move {
                match (prepared, call) {
                    (Some(prepared), Some(call)) => send(self.client(), prepared, call, &self.seal).await.map(Some),
                    _ => Ok(None),
                }
            });
        }
        try_join_all(sent).await
    }

    fn client(&self) -> &Client {
        match &self.source {
            Source::Pooled(object) => opened(object),
            Source::Part(object) => object,
            Source::Caller(client) => client,
        }
    }

    /// Allows the connection to return to the pool.
    fn set_ended(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl Drop for Tx<'_> {
    fn drop(&mut self) {
        if let (false, Source::Pooled(object)) = (*self.ended.get_mut(), &mut self.source)
            && let Some(client) = object.take()
        {
            drop(Object::take(client));
        }
    }
}

fn opened(object: &Option<Object>) -> &Object {
    object.as_ref().expect("only `drop` takes it")
}

fn calls<'v>(statements: impl Pipeline<'v>) -> Vec<Option<Call<'v>>> {
    let mut calls = Vec::new();
    statements.calls(&mut calls);
    calls
}

/// Sends a call on a connection, and reads all of its rows.
pub(crate) async fn send(
    client: &Client,
    prepared: &Prepared,
    call: &Call<'_>,
    seal: &Seal,
) -> Result<Answered, Error> {
    let (mut stream, mut rows) = (pin!(open(client, prepared, call).await?), Vec::new());
    while let Some(row) = stream.try_next().await? {
        rows.push(row);
    }
    let changed = stream.rows_affected().unwrap_or(0);
    Ok(Answered { seal: seal.clone(), name: call.text.name(), rows, changed })
}

async fn open(client: &Client, prepared: &Prepared, call: &Call<'_>) -> Result<RowStream, Error> {
    match prepared {
        Prepared::Named(statement) => client.query_raw(statement, params(call)).await,
        Prepared::Unnamed => client.query_typed_raw(call.sql(), typed(call)).await,
    }
}

/// Waits for statements that do not commit, up to their deadline.
pub(crate) async fn within<T>(statement: impl Future<Output = Result<T, Error>>) -> Result<T, Fault> {
    timeout(STATEMENT_WAIT, statement).await.map_err(|_| Fault::Slow)?.map_err(Fault::statement)
}
