//! Every statement of the store, for tests and for psql.
//!
//! Two rules keep the tested plans, whatever the statistics say of tables that fill and empty within a minute. Batches
//! are joined with `any (array[batch.environment])` instead of `=`, which leaves one way to join: a lookup by key for
//! each row of the batch. And connections disable sequential scans, hash joins and merge joins (see `connection`),
//! because no statement of the store benefits from them.

use everhook_store::catalog::Order;
use everhook_store::sql::shared::SHARED;
use everhook_store::sql::statement::{Text, TextOf, Width};

use crate::DIALECT;
use crate::job::{enqueue, query, steer as job_steer};
use crate::schedule::fire;
use crate::{
    append, audit, background, backlog, batch, dedup, deliveries, directory, endpoints, environment, failure, feed,
    history, lease, once, optimistic_append, order, outbox, partition, poll, queue, renew, resource, retention, seal,
    session, settle, steer, tenant, token, traffic, tx, worker,
};

/// The statements of every module.
const ALL: &[&[TextOf]] = &[
    SHARED,
    append::STATEMENTS,
    audit::STATEMENTS,
    background::STATEMENTS,
    backlog::STATEMENTS,
    batch::STATEMENTS,
    deliveries::STATEMENTS,
    deliveries::redrive::STATEMENTS,
    deliveries::steer::STATEMENTS,
    directory::STATEMENTS,
    job_steer::STATEMENTS,
    steer::STATEMENTS,
    optimistic_append::STATEMENTS,
    endpoints::STATEMENTS,
    enqueue::STATEMENTS,
    environment::STATEMENTS,
    fire::STATEMENTS,
    failure::STATEMENTS,
    feed::STATEMENTS,
    history::STATEMENTS,
    history::attempt::STATEMENTS,
    dedup::STATEMENTS,
    lease::STATEMENTS,
    query::STATEMENTS,
    once::STATEMENTS,
    order::STATEMENTS,
    outbox::STATEMENTS,
    partition::STATEMENTS,
    poll::STATEMENTS,
    queue::STATEMENTS,
    renew::STATEMENTS,
    resource::STATEMENTS,
    resource::PROJECTION_STATEMENTS,
    retention::STATEMENTS,
    seal::STATEMENTS,
    session::STATEMENTS,
    settle::STATEMENTS,
    tenant::STATEMENTS,
    token::STATEMENTS,
    traffic::STATEMENTS,
    tx::STATEMENTS,
    worker::STATEMENTS,
];

/// A statement of the store, with the names and types that the server uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreStatement {
    /// The name of its query file.
    pub name: &'static str,
    /// The types of its parameters, separated by commas.
    pub types: String,
    /// The text; lists in ascending order.
    pub text: &'static str,
    /// The text for lists in descending order, if it differs.
    pub descending: Option<&'static str>,
}

/// Returns every statement of the store, by name.
pub fn statements() -> Vec<StoreStatement> {
    let mut all: Vec<StoreStatement> =
        ALL.iter().flat_map(|texts| texts.iter()).map(|text| shown(text(DIALECT))).collect();
    all.sort_by_key(|statement| statement.name);
    all
}

fn shown(text: &'static Text) -> StoreStatement {
    let types = text.params().iter().map(|(kind, width)| match width {
        Width::One => kind.sql().to_owned(),
        Width::Many => format!("{}[]", kind.sql()),
    });
    let (ascending, descending) = (text.sql(Order::Ascending), text.sql(Order::Descending));
    StoreStatement {
        name: text.name(),
        types: types.collect::<Vec<_>>().join(", "),
        text: ascending,
        descending: (ascending != descending).then_some(descending),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_file_is_a_statement_and_can_be_expanded() {
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/queries")).unwrap();
        let name = |file: std::fs::DirEntry| file.file_name().to_string_lossy().strip_suffix(".sql").map(str::to_owned);
        let mut files: Vec<String> = files.filter_map(|file| name(file.unwrap())).collect();
        files.sort();
        let all: Vec<&str> = statements().iter().map(|statement| statement.name).collect();
        let unknown: Vec<&String> = files.iter().filter(|file| !all.contains(&file.as_str())).collect();
        assert!(unknown.is_empty(), "not declared by a `statement!`, or not in the list: {unknown:?}");
    }
}
