//! `[[outbox]]`: outboxes outside the store's own database.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, bail};
use everhook_core::limits::OUTBOXES_MAX;
use everhook_core::name::Name;
use toml::{Table, Value};

use crate::config::check::check_url;
use crate::config::{OutboxConfig, OutboxPlace, Secret, suggest};
use crate::outboxes::{OWN, POLL_INTERVAL};

const KEYS: [&str; 6] = ["name", "database", "pooler", "sqlite", "environment", "poll_interval_ms"];

pub(crate) fn check(tables: &[Value]) -> anyhow::Result<Vec<OutboxConfig>> {
    if tables.len() > OUTBOXES_MAX {
        bail!("too many `[[outbox]]`: {} of at most {OUTBOXES_MAX}", tables.len());
    }
    let mut names = BTreeSet::from([OWN.to_owned()]);
    let mut outboxes = Vec::with_capacity(tables.len());
    for table in tables.iter().filter_map(Value::as_table) {
        let outbox = one(table)?;
        if !names.insert(outbox.name.clone()) {
            bail!(
                "duplicate `name` {:?} in `[[outbox]]`: use a unique name other than {OWN:?}, the store's own outbox",
                outbox.name
            );
        }
        outboxes.push(outbox);
    }
    Ok(outboxes)
}

fn one(table: &Table) -> anyhow::Result<OutboxConfig> {
    if let Some(unknown) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
        bail!("unknown setting `{unknown}` in `[[outbox]]`: {}", suggest(unknown, &KEYS));
    }
    let name = text(table, "name")?.context("`[[outbox]]` has no `name`: add one")?;
    name.parse::<Name>().with_context(|| format!("invalid `name` {name:?} in `[[outbox]]`"))?;
    let about = |error: anyhow::Error| error.context(format!("invalid `[[outbox]]` {name:?}"));
    let pooler = match table.get("pooler") {
        None => None,
        Some(value) => Some(value.as_bool().context("`pooler` must be true or false").map_err(about)?),
    };
    let place = match (text(table, "database")?, text(table, "sqlite")?) {
        (Some(url), None) => {
            check_url(url).with_context(|| format!("invalid `database` of `[[outbox]]` {name:?}"))?;
            OutboxPlace::Postgres { url: Secret(url.to_owned()), pooler: pooler.unwrap_or(false) }
        }
        (None, Some(_)) if pooler.is_some() => {
            bail!("invalid `[[outbox]]` {name:?}: `pooler` requires `database`: remove `pooler`")
        }
        (None, Some(file)) => OutboxPlace::Sqlite { file: file.into() },
        _ => bail!("invalid `[[outbox]]` {name:?}: set either `database` or `sqlite`"),
    };
    let poll_interval = match table.get("poll_interval_ms") {
        None => POLL_INTERVAL,
        Some(value) => {
            let millis = value.as_integer().and_then(|millis| u64::try_from(millis).ok());
            let millis = millis.filter(|millis| (5..=3_600_000).contains(millis));
            Duration::from_millis(millis.context("`poll_interval_ms` must be 5 to 3600000").map_err(about)?)
        }
    };
    let environment = text(table, "environment")?.map(str::to_owned);
    if let Some(environment) = &environment {
        let bad = || format!("invalid `environment` {environment:?} of `[[outbox]]` {name:?}");
        environment.parse::<Name>().with_context(bad)?;
    }
    Ok(OutboxConfig { name: name.to_owned(), place, environment, poll_interval })
}

fn text<'a>(table: &'a Table, key: &str) -> anyhow::Result<Option<&'a str>> {
    match table.get(key) {
        None => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
        Some(_) => bail!("invalid `{key}` in `[[outbox]]`: expected a non-empty string"),
    }
}
