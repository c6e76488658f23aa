//! `everhook once`: the once-slots of an application.

use everhook_core::limits::PAGE_MAX;
use serde_json::Value;

use crate::remote::{Remote, named};
use crate::table::{seconds, table, text};

/// Returns all slots of an application, as a table or as JSON.
pub(crate) async fn list(remote: &Remote, application: &str, json: bool) -> anyhow::Result<String> {
    let path = format!("/app/{}/once", named("application", application)?);
    let slots = remote.get_all(&path, PAGE_MAX).await?;
    if json {
        return Ok(format!("{:#}\n", Value::from(slots)));
    }
    let heads = ["KEY", "PHASE", "STATE", "WINNER", "WINNER PHASE", "SUPPRESSED", "CLAIMED"].map(str::to_owned);
    let mut rows = vec![heads];
    rows.extend(slots.iter().map(|slot| {
        let number = |key: &str| slot[key].to_string();
        let (winner_phase, suppressed) = (number("winnerPhase"), number("suppressedCount"));
        [text(slot, "key"), number("phase"), state(slot), text(slot, "winner"), winner_phase, suppressed, claimed(slot)]
    }));
    Ok(table(&rows))
}

pub(crate) async fn show(remote: &Remote, application: &str, key: &str, json: bool) -> anyhow::Result<String> {
    let slot = remote.get(&path(application, key)?).await?;
    if json {
        return Ok(format!("{slot:#}\n"));
    }
    let rows = [
        ["key".to_owned(), text(&slot, "key")],
        ["phase".to_owned(), format!("{} ({})", slot["phase"], state(&slot))],
        ["winner".to_owned(), format!("{} in phase {}", text(&slot, "winner"), slot["winnerPhase"])],
        ["suppressed".to_owned(), slot["suppressedCount"].to_string()],
        ["created".to_owned(), seconds(&slot, "createdAt")],
        ["claimed".to_owned(), claimed(&slot)],
        ["updated".to_owned(), seconds(&slot, "updatedAt")],
    ];
    Ok(table(&rows))
}

pub(crate) async fn reset(remote: &Remote, application: &str, key: &str) -> anyhow::Result<String> {
    let path = path(application, key)?;
    remote.delete(&path).await?;
    let slot = remote.get(&path).await?;
    Ok(format!("{key} is in phase {} ({})\n", slot["phase"], state(&slot)))
}

fn path(application: &str, key: &str) -> anyhow::Result<String> {
    Ok(format!("/app/{}/once/{}", named("application", application)?, named("key", key)?))
}

fn state(slot: &Value) -> String {
    if slot["open"] == true { "open: the next claim wins".to_owned() } else { "won".to_owned() }
}

fn claimed(slot: &Value) -> String {
    seconds(slot, "claimedAt")
}
