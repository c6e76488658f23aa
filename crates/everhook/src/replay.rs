//! `everhook replay`: sends messages of a window again to one endpoint.

use clap::{Args, ValueEnum};
use serde_json::Map;

use crate::bulk::ChosenMessages;
use crate::endpoint::{At, Window};
use crate::output::Answer;
use crate::remote::Remote;

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    window: Window,
    /// Replay only messages whose last attempt has this status.
    #[arg(long, value_name = "STATUS")]
    status: Option<Status>,
    /// Replay only messages whose last attempt got a status of this class: 0 (no reply), 100, 200, 300, 400 or 500.
    #[arg(long, value_name = "CLASS")]
    status_class: Option<u16>,
    #[command(flatten)]
    chosen: ChosenMessages,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Status {
    Succeeded,
    Failed,
    Cancelled,
}

impl ReplayArgs {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        let path = format!("{}/bulk-replay", self.at.path()?);
        let what =
            format!("send the matching messages again to endpoint {} of {}", self.at.endpoint, self.at.application);
        if !self.chosen.bulk.is_dry_run() {
            remote.confirm(self.chosen.consent, &what)?;
        }
        let mut body = Map::new();
        self.window.add_to(&mut body);
        self.chosen.of.add_to(&mut body);
        if let Some(status) = self.status {
            let number = match status {
                Status::Succeeded => 0,
                Status::Failed => 2,
                Status::Cancelled => 4,
            };
            body.insert("status".to_owned(), number.into());
        }
        if let Some(class) = self.status_class {
            body.insert("statusCodeClass".to_owned(), class.into());
        }
        self.chosen.bulk.start(remote, &path, body).await
    }
}
