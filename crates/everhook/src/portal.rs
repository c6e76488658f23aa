//! `everhook portal`: access of people to the portal of their application, and the look of all portals.

use clap::Subcommand;
use serde_json::{Map, Value, json};

use crate::confirm::Consent;
use crate::exit::usage;
use crate::fields::Fields;
use crate::output::Answer;
use crate::remote::{Remote, named};
use crate::table::cell;
use crate::when;

#[derive(Debug, Subcommand)]
pub(crate) enum PortalCommand {
    /// Print the address of an application's portal, with a token for one person.
    #[command(after_help = "Examples:
  everhook portal open acme
  everhook portal open acme --read-only --expires-in 1h --session support")]
    Open {
        /// Id or uid of the application.
        application: String,
        /// Time for which the token is valid [default: 7d].
        #[arg(long, value_name = "DURATION", value_parser = when::seconds)]
        expires_in: Option<u64>,
        /// Let the person read, without secrets.
        #[arg(long)]
        read_only: bool,
        /// Your own id of the session, by which `portal close` ends its tokens.
        #[arg(long, value_name = "ID")]
        session: Option<String>,
    },
    /// End the tokens of an application, or those of some sessions.
    Close {
        /// Id or uid of the application.
        application: String,
        /// End only the tokens of this session; repeatable.
        #[arg(long = "session", value_name = "ID")]
        sessions: Vec<String>,
        #[command(flatten)]
        consent: Consent,
    },
    /// Show the look of the portals.
    Look,
    /// Change the look of the portals. Omitted fields stay unchanged; none removes one.
    SetLook {
        /// Name in the head of the portal.
        #[arg(long, value_name = "TEXT")]
        name: Option<String>,
        /// Logo: a data: URL of a PNG, JPEG, WebP or SVG image.
        #[arg(long, value_name = "URL")]
        logo_url: Option<String>,
        /// Colour of buttons and links, such as '#0050aa'.
        #[arg(long, value_name = "COLOUR")]
        accent: Option<String>,
        /// Address of your own site, for the link that leads back.
        #[arg(long, value_name = "URL")]
        back_url: Option<String>,
    },
}

const LOOK: &str = "/portal-settings";

impl PortalCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            PortalCommand::Open { application, expires_in, read_only, session } => {
                let path = format!("/auth/app-portal-access/{}", named("application", &application)?);
                let mut body = Map::new();
                body.add_text("sessionId", session);
                body.extend(expires_in.map(|seconds| ("expiry".to_owned(), json!(seconds))));
                body.extend(read_only.then(|| ("readOnly".to_owned(), json!(true))));
                let opened = remote.post_body(&path, &body).await?;
                let url = cell(&opened, "url");
                Ok(Answer::line(opened, url))
            }
            PortalCommand::Close { application, sessions, consent } => {
                let path = format!("/auth/app/{}/expire-all", named("application", &application)?);
                let which = if sessions.is_empty() { "all tokens" } else { "the tokens of these sessions" };
                remote.confirm(consent, &format!("end {which} of application {application}"))?;
                remote.post_body(&path, &json!({ "sessionIds": sessions })).await?;
                let data = json!({ "application": application, "sessions": sessions });
                Ok(Answer::line(data, format!("ended {which} of {application}")))
            }
            PortalCommand::Look => Ok(shown(remote.get(LOOK).await?)),
            PortalCommand::SetLook { name, logo_url, accent, back_url } => {
                let mut changes = Map::new();
                changes.add_text_or_none("name", name);
                changes.add_text_or_none("logoUrl", logo_url);
                changes.add_text_or_none("accent", accent);
                changes.add_text_or_none("backUrl", back_url);
                if changes.is_empty() {
                    return Err(usage("--name, --logo-url, --accent or --back-url is required"));
                }
                let mut look = match remote.get(LOOK).await? {
                    Value::Object(look) => look,
                    _ => Map::new(),
                };
                look.extend(changes);
                Ok(shown(remote.put(LOOK, &look).await?))
            }
        }
    }
}

fn shown(look: Value) -> Answer {
    let facts = vec![
        ("name", cell(&look, "name")),
        ("accent", cell(&look, "accent")),
        ("back url", cell(&look, "backUrl")),
        ("logo url", cell(&look, "logoUrl")),
    ];
    Answer::facts(look, facts)
}
