//! Reads under row-level security: a second wall between environments, for those who configure it.
//!
//! With a tenant role, reads that belong to one environment use connections of their own, which have that role. Each
//! read is sent together with the environment that it is for, and policies of the tables hide all other rows from the
//! role, whatever the statement says. Work for all environments, such as appends, leases and settlements, uses the
//! other connections. See `docs/adr/0038-row-level-security.md`.

use everhook_core::id::EnvironmentId;
use everhook_store::query::Query;
use everhook_store::statement;
use tokio_postgres::Config;

use crate::connection::{Connector, address};
use crate::error::{Fault, PostgresOpenError};
use crate::tx::within;

tokio::task_local! {
    /// The environment whose rows the reads of this task may see.
    static TENANT: EnvironmentId;
}

statement! {
    // Without a limit to the transaction: the next read on the connection sets its own.
    pub(crate) SetTenant = (
        "set_tenant",
        "select set_config('everhook.environment', :environment::text, false)"
    ) { environment: EnvironmentId } -> Option<String>;
}

/// A table that the tenant role cannot read, or whose rows of all environments it could read.
const UNGUARDED: &str = "select relation.relname::text \
    from pg_class as relation \
        join pg_attribute as attribute on attribute.attrelid = relation.oid \
            and attribute.attname = 'environment' \
            and attribute.atttypid = 'integer'::regtype \
    where relation.relnamespace = 'everhook'::regnamespace \
        and relation.relkind in ('r', 'p') \
        and case \
            when has_table_privilege(relation.oid, 'select') then not row_security_active(relation.oid) \
            else not relation.relispartition \
        end \
    order by relation.relname \
    limit 1";

/// Runs reads for one environment.
pub(crate) async fn scoped<T>(query: &Query, reads: impl Future<Output = T>) -> T {
    match environment(query) {
        Some(environment) => TENANT.scope(environment, reads).await,
        None => reads.await,
    }
}

/// The environment that the reads of this task are for.
pub(crate) fn current() -> Option<EnvironmentId> {
    TENANT.try_with(|environment| *environment).ok()
}

/// The environment whose rows answer a query.
fn environment(query: &Query) -> Option<EnvironmentId> {
    match query {
        // Background tasks are jobs of the server's own environment.
        Query::BackgroundTasks(_) => None,
        query => query.environment(),
    }
}

/// Returns the settings of connections with the tenant role.
pub(crate) fn settings(settings: &Config, role: &str) -> Config {
    let mut tenant = settings.clone();
    let role = role.replace('\\', "\\\\").replace(' ', "\\ ");
    let given = settings.get_options().unwrap_or_default();
    tenant.options(format!("{given} -c role={role}"));
    tenant
}

/// Refuses a role that could read rows of other environments.
pub(crate) async fn check(settings: &Config, connector: &Connector, role: &str) -> Result<(), PostgresOpenError> {
    let at = address(settings);
    let client = connector.open_now(settings).await?;
    let failed = |source: Fault| PostgresOpenError::Statement {
        address: at.clone(),
        what: "read its row-level security",
        source: Box::new(source),
    };
    let rows = within(client.query_typed(UNGUARDED, &[])).await.map_err(failed)?;
    match rows.first() {
        Some(row) => {
            let table = row.try_get(0).map_err(Fault::Statement).map_err(failed)?;
            Err(PostgresOpenError::Unguarded { address: at, role: role.to_owned(), table })
        }
        None => Ok(()),
    }
}
