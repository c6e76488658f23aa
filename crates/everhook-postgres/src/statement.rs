//! Connections and transactions: how statements are sent, and what is known when one fails.
//!
//! Statements are prepared once per connection, or sent unnamed behind a pooler. Requests go out when a future is first
//! polled, so that joined futures share a round trip: everything is prepared *before* the join, or the order would be lost.
//! A transaction that is not brought to its end closes its connection: the server rolls it back, and nothing half-done
//! gets back into the pool, whether a statement failed, took too long, or its caller went away.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{Object, Pool};
use futures_util::TryStreamExt as _;
use futures_util::future::try_join;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row, RowStream, Statement};

use crate::connection::{BEGIN, BEGIN_POOLED};
use crate::error::Fault;
use crate::sql::{LOCK_LANE, Sql};

/// How long a statement may take, unless it commits.
pub(crate) const STATEMENT_WAIT: Duration = Duration::from_secs(4);

/// The values of a statement.
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Where connections come from, and how they are spoken to.
#[derive(Clone)]
pub(crate) struct Database {
    pub(crate) pool: Pool,
    pub(crate) pooler: bool,
}

impl Database {
    pub(crate) async fn connection(&self) -> Result<Connection, Fault> {
        let client = self.pool.get().await.map_err(Fault::NoConnection)?;
        Ok(Connection { client: Some(client), pooler: self.pooler })
    }

    /// One read, without a transaction around it.
    pub(crate) async fn read(&self, sql: &'static Sql, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        self.read_as(sql, sql.text, params).await
    }

    /// One read with another text but the same parameters.
    pub(crate) async fn read_as(&self, sql: &'static Sql, text: &str, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        let mut connection = self.connection().await?;
        let prepared = connection.prepare_as(sql, text).await?;
        within(connection.query(&prepared, params)).await.inspect_err(|_| connection.discard())
    }

    /// One write that commits by itself: nobody interrupts it, and a lost reply is doubt.
    pub(crate) async fn write(&self, sql: &'static Sql, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        let mut connection = self.connection().await?;
        let prepared = connection.prepare(sql).await?;
        let written = connection.query(&prepared, params).await;
        // A statement that undid itself leaves the connection as it was.
        let undid_itself = |error: &Error| error.code() == Some(&SqlState::DIVISION_BY_ZERO);
        written
            .inspect_err(|error| {
                if !undid_itself(error) {
                    connection.discard()
                }
            })
            .map_err(Fault::Commit)
    }

    /// One write that commits by itself; answers how many rows it changed.
    pub(crate) async fn change(&self, sql: &'static Sql, params: Params<'_>) -> Result<u64, Fault> {
        let mut connection = self.connection().await?;
        let prepared = connection.prepare(sql).await?;
        connection.execute(&prepared, params).await.map_err(Fault::Commit).inspect_err(|_| connection.discard())
    }

    /// A connection on which a transaction is about to begin.
    pub(crate) async fn transaction(&self) -> Result<Transaction, Fault> {
        Ok(Transaction { connection: self.connection().await?, ended: AtomicBool::new(false) })
    }
}

/// A statement that is ready to be sent.
pub(crate) enum Prepared {
    Named(Statement),
    Unnamed(String, &'static Sql),
}

/// What touches lanes, and what is sent before it.
pub(crate) struct Touch {
    lock: Prepared,
    touch: Prepared,
}

/// A connection from the pool.
pub(crate) struct Connection {
    client: Option<Object>,
    pooler: bool,
}

impl Connection {
    fn client(&self) -> &Object {
        self.client.as_ref().expect("only `discard` takes it, and nothing is sent afterwards")
    }

    pub(crate) async fn prepare(&self, sql: &'static Sql) -> Result<Prepared, Fault> {
        self.prepare_as(sql, sql.text).await
    }

    async fn prepare_as(&self, sql: &'static Sql, text: &str) -> Result<Prepared, Fault> {
        if self.pooler {
            return Ok(Prepared::Unnamed(text.to_owned(), sql));
        }
        within(self.client().prepare_typed_cached(text, sql.types)).await.map(Prepared::Named)
    }

    pub(crate) async fn query(&self, prepared: &Prepared, params: Params<'_>) -> Result<Vec<Row>, Error> {
        match prepared {
            Prepared::Named(statement) => self.client().query(statement, params).await,
            Prepared::Unnamed(text, sql) => self.client().query_typed(text, &typed(sql, params)).await,
        }
    }

    async fn stream(&self, prepared: &Prepared, params: Params<'_>) -> Result<RowStream, Error> {
        match prepared {
            Prepared::Named(statement) => self.client().query_raw(statement, params.iter().copied()).await,
            Prepared::Unnamed(text, sql) => self.client().query_typed_raw(text, typed(sql, params)).await,
        }
    }

    pub(crate) async fn execute(&self, prepared: &Prepared, params: Params<'_>) -> Result<u64, Error> {
        match prepared {
            Prepared::Named(statement) => self.client().execute(statement, params).await,
            Prepared::Unnamed(text, sql) => self.client().execute_typed(text, &typed(sql, params)).await,
        }
    }

    /// Closes the connection instead of giving it back.
    fn discard(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}

/// A transaction, or a connection on which one is about to begin.
pub(crate) struct Transaction {
    connection: Connection,
    ended: AtomicBool,
}

impl Transaction {
    pub(crate) fn client(&self) -> &Object {
        self.connection.client()
    }

    pub(crate) async fn prepare(&self, sql: &'static Sql) -> Result<Prepared, Fault> {
        self.connection.prepare(sql).await
    }

    pub(crate) async fn query(&self, prepared: &Prepared, params: Params<'_>) -> Result<Vec<Row>, Error> {
        self.connection.query(prepared, params).await
    }

    pub(crate) async fn execute(&self, prepared: &Prepared, params: Params<'_>) -> Result<u64, Error> {
        self.connection.execute(prepared, params).await
    }

    /// Prepares and sends one statement.
    pub(crate) async fn rows(&self, sql: &'static Sql, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        Statements::rows(self, sql, params).await
    }

    /// Prepares and sends one statement, and reads its rows as they come, while the server makes the next ones.
    pub(crate) async fn rows_as<T>(
        &self,
        sql: &'static Sql,
        params: Params<'_>,
        mut read: impl FnMut(&Row) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        let prepared = self.connection.prepare(sql).await?;
        let mut read_all = Vec::new();
        let reading = async {
            let mut rows = pin!(self.connection.stream(&prepared, params).await.map_err(Fault::Statement)?);
            while let Some(row) = rows.try_next().await.map_err(Fault::Statement)? {
                read_all.push(read(&row)?);
            }
            Ok(())
        };
        timeout(STATEMENT_WAIT, reading).await.map_err(|_| Fault::Slow)??;
        Ok(read_all)
    }

    /// Prepares and sends one statement; answers how many rows it changed.
    pub(crate) async fn change(&self, sql: &'static Sql, params: Params<'_>) -> Result<u64, Fault> {
        Statements::change(self, sql, params).await
    }

    /// Begins, and reads in the same round trip. Not for writes: if `begin` failed they would commit by themselves.
    pub(crate) async fn begin_with<T>(&self, reads: impl Future<Output = Result<T, Error>>) -> Result<T, Fault> {
        let begin = if self.connection.pooler { BEGIN_POOLED } else { BEGIN };
        within(try_join(self.connection.client().batch_execute(begin), reads)).await.map(|((), read)| read)
    }

    pub(crate) async fn begin(&self) -> Result<(), Fault> {
        self.begin_with(async { Ok(()) }).await
    }

    /// Sends the last statements and the commit in one round trip, without a deadline.
    ///
    /// If a statement fails the server turns the commit into a rollback. The driver does not show that, but it shows the
    /// statement's error; so the transaction is committed exactly if every one of them succeeded.
    pub(crate) async fn commit_with<T>(&self, writes: impl Future<Output = Result<T, Error>>) -> Result<T, Fault> {
        let written = try_join(writes, self.connection.client().batch_execute("commit")).await;
        let (written, ()) = written.map_err(Fault::Commit)?;
        self.ended.store(true, Ordering::Relaxed);
        Ok(written)
    }

    pub(crate) async fn commit(&self) -> Result<(), Fault> {
        self.commit_with(async { Ok(()) }).await
    }

    pub(crate) async fn roll_back(&self) -> Result<(), Fault> {
        within(self.connection.client().batch_execute("rollback")).await?;
        self.ended.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// A transaction that statements are sent in: one of ours, or somebody else's.
pub(crate) trait Statements: Sync {
    /// Makes a statement ready to be sent.
    fn prepare(&self, sql: &'static Sql) -> impl Future<Output = Result<Prepared, Fault>> + Send;

    /// Sends it.
    fn query(&self, prepared: &Prepared, params: Params<'_>) -> impl Future<Output = Result<Vec<Row>, Error>> + Send;

    /// Sends it; answers how many rows it changed.
    fn execute(&self, prepared: &Prepared, params: Params<'_>) -> impl Future<Output = Result<u64, Error>> + Send;

    /// Sends the last statements, and the commit with them if that is ours to do.
    fn finish<T: Send>(
        &self,
        writes: impl Future<Output = Result<T, Error>> + Send,
        ending: Ending,
    ) -> impl Future<Output = Result<T, Fault>> + Send;

    /// Prepares a statement that touches lanes, `touch_lane` or one like it.
    fn prepare_touch(&self, sql: &'static Sql) -> impl Future<Output = Result<Touch, Fault>> + Send {
        async move { Ok(Touch { lock: self.prepare(&LOCK_LANE).await?, touch: self.prepare(sql).await? }) }
    }

    /// Locks lanes against drains, then touches them; `params` begin with their environments and ids. Two statements, so that the second
    /// sees what every drain before the lock has left: a lock by an old snapshot gets past a write that is not exclusive, and may then show
    /// what was before a drain that followed it.
    fn touch(&self, prepared: &Touch, params: Params<'_>) -> impl Future<Output = Result<u64, Error>> + Send {
        async move {
            let (lock, touch) = (self.execute(&prepared.lock, &params[..2]), self.execute(&prepared.touch, params));
            try_join(lock, touch).await.map(|(_, touched)| touched)
        }
    }

    /// Prepares and sends one statement.
    fn rows(&self, sql: &'static Sql, params: Params<'_>) -> impl Future<Output = Result<Vec<Row>, Fault>> + Send {
        async move {
            let prepared = self.prepare(sql).await?;
            within(self.query(&prepared, params)).await
        }
    }

    /// Prepares and sends one statement; answers how many rows it changed.
    fn change(&self, sql: &'static Sql, params: Params<'_>) -> impl Future<Output = Result<u64, Fault>> + Send {
        async move {
            let prepared = self.prepare(sql).await?;
            within(self.execute(&prepared, params)).await
        }
    }
}

/// How much of its transaction something is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It commits it.
    Commit,
    /// Someone else does.
    Open,
}

impl Statements for Transaction {
    async fn prepare(&self, sql: &'static Sql) -> Result<Prepared, Fault> {
        Transaction::prepare(self, sql).await
    }

    async fn query(&self, prepared: &Prepared, params: Params<'_>) -> Result<Vec<Row>, Error> {
        Transaction::query(self, prepared, params).await
    }

    async fn execute(&self, prepared: &Prepared, params: Params<'_>) -> Result<u64, Error> {
        Transaction::execute(self, prepared, params).await
    }

    async fn finish<T: Send>(
        &self,
        writes: impl Future<Output = Result<T, Error>> + Send,
        ending: Ending,
    ) -> Result<T, Fault> {
        match ending {
            Ending::Commit => self.commit_with(writes).await,
            Ending::Open => within(writes).await,
        }
    }
}

/// Somebody else's transaction: nothing of it is prepared for later, and its end is theirs.
pub(crate) struct Foreign<'a, 'c>(pub(crate) &'a tokio_postgres::Transaction<'c>);

impl Statements for Foreign<'_, '_> {
    async fn prepare(&self, sql: &'static Sql) -> Result<Prepared, Fault> {
        Ok(Prepared::Unnamed(sql.text.to_owned(), sql))
    }

    async fn query(&self, prepared: &Prepared, params: Params<'_>) -> Result<Vec<Row>, Error> {
        match prepared {
            Prepared::Named(statement) => self.0.query(statement, params).await,
            Prepared::Unnamed(text, sql) => self.0.query_typed(text, &typed(sql, params)).await,
        }
    }

    async fn execute(&self, prepared: &Prepared, params: Params<'_>) -> Result<u64, Error> {
        match prepared {
            Prepared::Named(statement) => self.0.execute(statement, params).await,
            Prepared::Unnamed(text, sql) => self.0.execute_typed(text, &typed(sql, params)).await,
        }
    }

    async fn finish<T: Send>(
        &self,
        writes: impl Future<Output = Result<T, Error>> + Send,
        _: Ending,
    ) -> Result<T, Fault> {
        within(writes).await
    }
}

fn typed<'p>(sql: &'static Sql, params: Params<'p>) -> Vec<(&'p (dyn ToSql + Sync), Type)> {
    params.iter().copied().zip(sql.types.iter().cloned()).collect()
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !*self.ended.get_mut() {
            self.connection.discard();
        }
    }
}

/// Waits for statements that do not commit.
pub(crate) async fn within<T>(statement: impl Future<Output = Result<T, Error>>) -> Result<T, Fault> {
    timeout(STATEMENT_WAIT, statement).await.map_err(|_| Fault::Slow)?.map_err(Fault::Statement)
}
