//! Endpoints, with the credentials of their deliveries.

use std::collections::BTreeMap;
use std::sync::Arc;

use everhook_core::chat::Chat;
use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::endpoint_auth::EndpointAuth;
use everhook_core::failing::Failing;
use everhook_core::filter::TypePattern;
use everhook_core::filter::expression::Expression;
use everhook_core::id::{ApplicationId, EndpointId};
use everhook_core::name::{Metadata, Name};
use everhook_core::policy::Settings;
use everhook_core::resource::ResourceKind;
use everhook_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Columns, KeysForm, json, readable, text};
use crate::resource::Parent;
use crate::sql::rows::ResourceRow;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EndpointSpec {
    url: String,
    event_types: Option<Vec<TypePattern>>,
    channels: Option<Vec<Name>>,
    filter: Option<String>,
    headers: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "readable")]
    auth: Option<EndpointAuth>,
    throttle_rate: Option<u16>,
    #[serde(default, deserialize_with = "readable")]
    policy: Option<Settings>,
    #[serde(default)]
    failing: Option<FailingForm>,
    #[serde(default, deserialize_with = "readable")]
    chat: Option<Chat>,
    version: u16,
    keys: KeysForm,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FailingForm {
    since: i64,
    warned_at: Option<i64>,
    disabled_at: Option<i64>,
}

/// All members are optional, because fan-out and delivery read endpoints without `info`.
#[derive(Serialize, Deserialize)]
struct EndpointInfo {
    #[serde(default)]
    description: String,
    #[serde(default)]
    metadata: Metadata,
}

pub(super) fn columns(endpoint: &Endpoint) -> Columns {
    let spec = EndpointSpec {
        url: endpoint.url.clone(),
        event_types: endpoint.event_types.clone(),
        channels: endpoint.channels.clone(),
        filter: endpoint.filter.as_ref().map(|filter| filter.as_str().to_owned()),
        headers: endpoint.headers.clone(),
        auth: endpoint.auth.as_deref().cloned(),
        throttle_rate: endpoint.throttle_rate,
        policy: endpoint.policy.as_deref().cloned(),
        failing: endpoint.failing.map(FailingForm::new),
        chat: endpoint.chat.as_deref().cloned(),
        version: endpoint.version,
        keys: KeysForm::new(&endpoint.keys),
    };
    let info = EndpointInfo { description: endpoint.description.clone(), metadata: endpoint.metadata.clone() };
    Columns {
        kind: ResourceKind::Endpoint,
        parent: Parent::of(endpoint.application),
        id: endpoint.id.0,
        name: endpoint.uid.clone(),
        state: endpoint.state.to_db(),
        revision: endpoint.revision,
        spec: json(&spec),
        info: json(&info),
    }
}

pub(crate) fn read(row: &ResourceRow) -> Result<Endpoint, &'static str> {
    let spec: EndpointSpec = text(&row.spec, "spec")?;
    let EndpointInfo { description, metadata } = text(&row.info, "info")?;
    Ok(Endpoint {
        id: EndpointId(row.id),
        application: ApplicationId(row.parent.0.ok_or("parent")?),
        uid: row.name.clone(),
        url: spec.url,
        description,
        state: EndpointState::from_db(row.state).ok_or("state")?,
        event_types: spec.event_types,
        channels: spec.channels,
        filter: spec.filter.map(Expression::stored),
        headers: spec.headers,
        auth: spec.auth.map(Arc::new),
        throttle_rate: spec.throttle_rate,
        policy: spec.policy.map(Arc::new),
        chat: spec.chat.map(Arc::new),
        inherited: None,
        failing: spec.failing.map(FailingForm::read),
        metadata,
        version: spec.version,
        keys: spec.keys.read().ok_or("spec")?,
        created_at: row.created_at,
        updated_at: row.updated_at,
        revision: row.revision,
    })
}

impl FailingForm {
    fn new(failing: Failing) -> FailingForm {
        let Failing { since, warned_at, disabled_at } = failing;
        FailingForm {
            since: since.as_micros(),
            warned_at: warned_at.map(Timestamp::as_micros),
            disabled_at: disabled_at.map(Timestamp::as_micros),
        }
    }

    fn read(self) -> Failing {
        Failing {
            since: Timestamp::from_micros(self.since),
            warned_at: self.warned_at.map(Timestamp::from_micros),
            disabled_at: self.disabled_at.map(Timestamp::from_micros),
        }
    }
}
