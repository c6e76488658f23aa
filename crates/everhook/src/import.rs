//! `everhook import`: copies the configuration of another product into a store.
//!
//! The command writes to the store itself, beside a running server: the API chooses new ids, while an import keeps the
//! old ones. It can be repeated. An object that exists stays as it is, unless `--update` is given, so an interrupted
//! import continues where it ended.

mod record;
mod report;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use everhook_core::endpoint::Endpoint;
use everhook_core::id::{ApplicationId, DEFAULT_ORG, EndpointId, OrgId};
use everhook_core::limits::ENDPOINTS_MAX;
use everhook_core::scope::{AppScope, Scope};
use everhook_core::svix_key::MainSecret;
use everhook_core::time::Timestamp;
use everhook_postgres::{SvixDatabase, SvixOrganization};
use everhook_sender::egress::Egress;
use everhook_store::catalog::{Created, Locator, Replaced};
use everhook_store::query;
use everhook_store::resource::{ChangedResource, NewResource, Resource};
use everhook_store::store::{Reads, Store};

use self::report::{Kind, Report, Step};
use crate::cli::{SettingsArgs, note};
use crate::config::Config;
use crate::keys::{self, DEFAULT_ENVIRONMENT};
use crate::operator::{LoggedChange, OperatorArgs};
use crate::output::FormatArgs;
use crate::store::{self, Opened};

#[derive(Debug, Subcommand)]
pub(crate) enum ImportCommand {
    /// Copy applications, endpoints with their secrets, and event types from the PostgreSQL of a Svix server.
    ///
    /// Ids, uids and secrets stay the same, so clients and receivers need no change. Repeat the command as often as you
    /// like: existing objects are left alone. Messages are not copied.
    Svix(SvixArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SvixArgs {
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
    /// PostgreSQL URL of the Svix server. It is only read.
    #[arg(long, value_name = "URL", env = "SVIX_DB_DSN", hide_env_values = true)]
    from: String,
    /// Main secret of the Svix server, if it encrypts its endpoint secrets.
    #[arg(long, value_name = "SECRET", env = "SVIX_MAIN_SECRET", hide_env_values = true)]
    main_secret: Option<String>,
    /// Organization to import; required if there are several.
    #[arg(long, value_name = "ORG_ID")]
    org: Option<String>,
    /// Environment to import into [default: the one with the organization's id, which existing tokens name].
    #[arg(long, value_name = "NAME")]
    environment: Option<String>,
    /// Replace objects that exist with their current state in Svix.
    #[arg(long)]
    update: bool,
    /// Show the result of an import without writing anything.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    format: FormatArgs,
}

impl SvixArgs {
    pub(crate) async fn run(self, config: &Config) -> anyhow::Result<()> {
        let source = SvixDatabase::connect(&self.from).await.context("could not open the Svix database")?;
        let org = choose(self.org.clone(), &source.organizations().await?)?;
        let opened = store::open_beside(config).await?;
        let imported = import(&self, config, &source, &opened, &org).await;
        opened.close().await;
        let report = imported?;
        report.answer().print(self.format.format())?;
        match report.failures() {
            0 => Ok(()),
            1 => bail!("1 object was not imported: correct it in Svix and import again"),
            many => bail!("{many} objects were not imported: correct them in Svix and import again"),
        }
    }
}

async fn import(
    args: &SvixArgs,
    config: &Config,
    source: &SvixDatabase,
    opened: &Opened,
    org: &str,
) -> anyhow::Result<Report> {
    let (scope, environment) = target(args, opened, org).await?;
    let mut import = Import {
        source,
        store: &*opened.store,
        scope,
        egress: config.egress.clone(),
        main: args.main_secret.as_deref().map(MainSecret::new),
        now: opened.store.now().await?,
        writes: !args.dry_run,
        updates: args.update,
        report: Report::new(org, &environment, args.dry_run),
    };
    note(&format!("importing {org} into environment {environment} ({})", store::place(config)));
    let operator = args.operator.clone().operator()?;
    let environment = scope.map(|scope| scope.environment);
    let change = LoggedChange { environment, action: "import svix", object: format!("/import/{org}"), reason: None };
    let write = async {
        // Endpoints name event types.
        import.event_types(org).await?;
        import.applications(org).await
    };
    match args.dry_run {
        true => write.await?,
        false => operator.logged(&*opened.store, &opened.ids, change, write).await?,
    }
    Ok(import.report)
}

/// Returns the organization to import.
fn choose(wanted: Option<String>, found: &[SvixOrganization]) -> anyhow::Result<String> {
    let list = || {
        let each = found.iter().map(|org| format!("{} ({} applications)", org.id, org.applications));
        each.collect::<Vec<_>>().join(", ")
    };
    match (wanted, found) {
        (Some(wanted), _) if found.iter().any(|org| org.id == wanted) => Ok(wanted),
        (Some(wanted), _) => bail!("organization {wanted:?} has no applications; the database has: {}", list()),
        (None, [only]) => Ok(only.id.clone()),
        (None, []) => bail!("the database has no applications: check --from"),
        (None, _) => bail!("the database has several organizations: choose one with --org: {}", list()),
    }
}

/// Returns the environment to write to, with its name. A dry run creates none.
async fn target(args: &SvixArgs, opened: &Opened, org: &str) -> anyhow::Result<(Option<Scope>, String)> {
    let known = opened.store.read(query::Environments {}).await?;
    let id = org.parse::<OrgId>().ok();
    let found = match &args.environment {
        Some(name) => known.into_iter().find(|known| known.name == *name),
        None => known.into_iter().find(|known| Some(known.org) == id),
    };
    if let Some(found) = found {
        return Ok((Some(Scope::of(found.id)), found.name));
    }
    let name = match (&args.environment, org) {
        (Some(name), _) => name,
        (None, DEFAULT_ORG) => DEFAULT_ENVIRONMENT,
        (None, _) => org,
    };
    if args.dry_run {
        return Ok((None, name.to_owned()));
    }
    let created = match (&args.environment, id) {
        (Some(name), _) => keys::environment(&*opened.store, &opened.ids, name).await?,
        (None, Some(id)) => opened.store.ensure_environment(id, name.to_owned()).await?,
        (None, None) => bail!("{org:?} is not an organization id that Everhook can keep: name an --environment"),
    };
    Ok((Some(Scope::of(created.id)), created.name))
}

struct Import<'a> {
    source: &'a SvixDatabase,
    store: &'a dyn Store,
    /// None if a dry run would create the environment.
    scope: Option<Scope>,
    egress: Egress,
    main: Option<MainSecret>,
    now: Timestamp,
    writes: bool,
    updates: bool,
    report: Report,
}

impl Import<'_> {
    async fn event_types(&mut self, org: &str) -> anyhow::Result<()> {
        let mut after = String::new();
        loop {
            let page = self.source.event_types(org, &after).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after.clone_from(&last.id);
            for row in page {
                let name = row.name.clone();
                let done = match record::event_type(row) {
                    Ok(new) => {
                        let old = match self.scope {
                            Some(scope) => {
                                self.store.read(query::FindEventType { scope, name: new.name.clone() }).await?
                            }
                            None => None,
                        };
                        let new = record::event_type_after(new, old.as_ref());
                        self.put(old.map(Resource::EventType), Resource::EventType(new)).await?
                    }
                    Err(reason) => Err(reason),
                };
                self.report.count(Kind::EventType, &name, done);
            }
        }
    }

    async fn applications(&mut self, org: &str) -> anyhow::Result<()> {
        let mut after = String::new();
        loop {
            let page = self.source.applications(org, &after).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after.clone_from(&last.id);
            let mut imported = Vec::new();
            for row in page {
                let id = row.id.clone();
                let done = match record::application(row) {
                    Ok(new) => {
                        let locator = Locator::Id(new.id);
                        let old = match self.scope {
                            Some(scope) => self.store.read(query::FindApplication { scope, locator }).await?,
                            None => None,
                        };
                        let new = record::application_after(new, old.as_ref());
                        self.put(old.map(Resource::Application), Resource::Application(new)).await?
                    }
                    Err(reason) => Err(reason),
                };
                if done.is_ok() {
                    imported.push(id.clone());
                }
                self.report.count(Kind::Application, &id, done);
            }
            self.endpoints(&imported).await?;
            note(&self.report.progress());
        }
    }

    async fn endpoints(&mut self, applications: &[String]) -> anyhow::Result<()> {
        let mut after = String::new();
        loop {
            let page = self.source.endpoints(applications, &after).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after.clone_from(&last.id);
            for row in page {
                let id = format!("{}/{}", row.application, row.id);
                let done = match record::endpoint(row, self.main.as_ref(), self.now, &self.egress) {
                    Ok(new) => {
                        let old = self.find_endpoint(new.application, new.id).await?;
                        let new = record::endpoint_after(new, old.as_ref());
                        self.put(old.map(Resource::Endpoint), Resource::Endpoint(new)).await?
                    }
                    Err(reason) => Err(reason),
                };
                self.report.count(Kind::Endpoint, &id, done);
            }
        }
    }

    async fn find_endpoint(&self, application: ApplicationId, id: EndpointId) -> anyhow::Result<Option<Endpoint>> {
        let Some(scope) = self.scope else { return Ok(None) };
        let scope = AppScope::of(scope.environment, application);
        Ok(self.store.read(query::FindEndpoint { scope, locator: Locator::Id(id) }).await?)
    }

    /// Writes one object. The inner error is the reason why this object cannot be imported.
    async fn put(&self, old: Option<Resource>, new: Resource) -> anyhow::Result<Result<Step, String>> {
        let is_equal = old.as_ref() == Some(&new);
        match (old, self.scope) {
            (Some(_), _) if is_equal || !self.updates => Ok(Ok(Step::Unchanged)),
            (Some(_), _) if !self.writes => Ok(Ok(Step::Updated)),
            (None, _) if !self.writes => Ok(Ok(Step::Created)),
            (Some(_), Some(scope)) => {
                let changed = ChangedResource { resource: new, key: None, messages: Vec::new() };
                Ok(match self.store.replace_resource(scope, changed).await?.answer {
                    Replaced::Done(_) | Replaced::Repeated => Ok(Step::Updated),
                    Replaced::Taken => Err("uid belongs to another object in Everhook".to_owned()),
                    Replaced::Stale | Replaced::KeyReused => {
                        Err("changed in Everhook at the same moment: import again".to_owned())
                    }
                })
            }
            (None, Some(scope)) => {
                let new = NewResource { resource: new, max: ENDPOINTS_MAX, key: None };
                Ok(match self.store.create_resource(scope, new).await?.answer {
                    Created::New(_) => Ok(Step::Created),
                    Created::Taken(_) => Err("uid belongs to another object in Everhook".to_owned()),
                    // The store knows the id, but no object was found under it.
                    Created::Repeated(_) => Err("was deleted in Everhook; a deleted id is not used again".to_owned()),
                    Created::NoParent => Err("application was deleted in Everhook".to_owned()),
                    Created::Full => Err(format!("an application has at most {ENDPOINTS_MAX} endpoints")),
                    Created::KeyReused => Err("was imported twice at the same moment: import again".to_owned()),
                })
            }
            (_, None) => Ok(Ok(Step::Created)),
        }
    }
}
