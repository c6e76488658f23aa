//! `everhook find`: the object that has an id, wherever it is.

use crate::output::Answer;
use crate::remote::{Remote, named};
use crate::table::cell;

pub(crate) async fn ask(remote: &Remote, id: &str) -> anyhow::Result<Answer> {
    let found = remote.get(&format!("/lookup/{}", named("id", id)?)).await?;
    let facts = vec![
        ("kind", cell(&found, "kind")),
        ("id", cell(&found, "id")),
        ("application", cell(&found, "appId")),
        ("path", cell(&found, "path")),
    ];
    Ok(Answer::facts(found, facts))
}
