//! `everhook listen --demo`: a throw-away server beside the listener, and a first webhook.

use std::path::{Path, PathBuf};

use anyhow::Context;
use everhook_core::verify::VerifyingKey;
use serde_json::json;
use tokio::sync::oneshot;

use crate::cli::note;
use crate::config::Settings;
use crate::remote::Remote;
use crate::serve::{self, Announce};
use crate::table::cell;
use crate::verify::parse_secret;
use crate::{keys, logging};

/// Uid of the application.
const APPLICATION: &str = "demo";
/// Uid of the endpoint.
const ENDPOINT: &str = "main";

/// Starts a server, sends a first message to `url`, and runs `listen` there until the process is interrupted.
pub(crate) async fn run(url: &str, listen: impl AsyncFnOnce(VerifyingKey) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let (folder, key) = (Folder::create()?, keys::generate());
    let config = Settings::throw_away(&folder.0, key.expose())?.check()?;
    let logs = logging::init(&config)?;
    let (ready, address) = oneshot::channel();
    let server = serve::serve(config, &logs, Announce::To(ready));
    let first_steps = async {
        let address = address.await.context("the server did not start")?;
        let server = format!("http://{address}");
        let remote = Remote::local(&server, key.expose().to_owned())?;
        let secret = prepare(&remote, url).await?;
        note(&greeting(&server, key.expose(), url));
        let message = async {
            let body = json!({ "eventType": "demo.started", "payload": { "hello": "world" } });
            remote.post_body(&format!("/app/{APPLICATION}/msg"), &body).await.map(drop)
        };
        tokio::try_join!(message, listen(parse_secret(&secret)?)).map(drop)
    };
    // An interrupt ends the server in order. The receiver answers until then.
    tokio::select! {
        served = Box::pin(server) => served,
        ended = Box::pin(first_steps) => ended,
    }
}

/// Creates an application with an endpoint, and returns the signing secret.
async fn prepare(remote: &Remote, url: &str) -> anyhow::Result<String> {
    remote.post_body("/app", &json!({ "name": "Demo", "uid": APPLICATION })).await?;
    let endpoints = format!("/app/{APPLICATION}/endpoint");
    remote.post_body(&endpoints, &json!({ "url": url, "uid": ENDPOINT })).await?;
    Ok(cell(&remote.get(&format!("{endpoints}/{ENDPOINT}/secret")).await?, "key"))
}

fn greeting(server: &str, key: &str, url: &str) -> String {
    format!(
        "A throw-away server runs at {server}. Its application {APPLICATION} has the endpoint {url}, which is this \
         listener.\nA first signed message is on its way. Send more of them from another terminal:\n\n    \
         export EVERHOOK_URL={server} EVERHOOK_KEY={key}\n    \
         everhook msg send {APPLICATION} invoice.paid '{{\"id\": \"inv_1\"}}'\n    \
         everhook attempt list {APPLICATION} --endpoint {ENDPOINT}\n\n\
         Press Ctrl-C to stop. The data is deleted then.\n"
    )
}

/// A folder that is deleted with this value.
struct Folder(PathBuf);

impl Folder {
    fn create() -> anyhow::Result<Folder> {
        let random: String =
            keys::generate().expose().chars().rev().filter(char::is_ascii_alphanumeric).take(12).collect();
        let folder = std::env::temp_dir().join(format!("everhook-demo-{random}"));
        create_private(&folder).with_context(|| format!("could not create {}", folder.display()))?;
        Ok(Folder(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            note(&format!("could not delete {}: {error}", self.0.display()));
        }
    }
}

fn create_private(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
