//! What a case needs beside the lease engine: to set the stage, and to look at it.
//!
//! Real stores do it through their catalogue and history, the one in memory through methods of its own.

use async_trait::async_trait;
use everhook_core::application::Application;
use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, MessageId, OrgId};
use everhook_core::limits::{ENDPOINTS_MAX, PAGE_MAX};
use everhook_store::catalog::{Created, Locator, Order, Replaced, Slice};
use everhook_store::history::{Attempt, AttemptFilter, AttemptsOf, Destination, Redrive, Resend, Resent};
use everhook_store::lease::LeaseStore;
use everhook_store::once::OnceSlots;
use everhook_store::{Jobs, Store};

use crate::mem::MemStore;

/// What a case needs beside the lease engine.
#[async_trait]
#[allow(missing_docs, reason = "named after the methods of the catalogue and of history that they stand for")]
pub trait Stage: LeaseStore + OnceSlots + Jobs {
    async fn stage_environment(&self, org: OrgId, name: &str) -> EnvironmentId;
    async fn stage_application(&self, environment: EnvironmentId, application: &Application);
    async fn stage_endpoint(&self, environment: EnvironmentId, endpoint: &Endpoint);
    async fn switch_endpoint(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        id: EndpointId,
        state: EndpointState,
    );
    async fn drop_endpoint(&self, environment: EnvironmentId, application: ApplicationId, id: EndpointId) -> bool;
    async fn drop_application(&self, environment: EnvironmentId, id: ApplicationId) -> bool;
    async fn attempts_of(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        message: MessageId,
    ) -> Vec<Attempt>;
    async fn destinations_of(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        message: MessageId,
    ) -> Vec<Destination>;
    async fn ask_resend(&self, environment: EnvironmentId, resend: &Resend) -> Resent;
    async fn ask_redrive(&self, environment: EnvironmentId, redrive: &Redrive) -> usize;
    async fn drop_payload(&self, environment: EnvironmentId, application: ApplicationId, message: MessageId) -> bool;
}

#[async_trait]
impl<S: Store + ?Sized> Stage for S {
    async fn stage_environment(&self, org: OrgId, name: &str) -> EnvironmentId {
        self.ensure_environment(org, name).await.unwrap().id
    }

    async fn stage_application(&self, environment: EnvironmentId, application: &Application) {
        let created = self.create_application(environment, application, None).await.unwrap();
        assert!(matches!(created, Created::New(_)), "{created:?}");
    }

    async fn stage_endpoint(&self, environment: EnvironmentId, endpoint: &Endpoint) {
        let created = self.create_endpoint(environment, endpoint, ENDPOINTS_MAX, None).await.unwrap();
        assert!(matches!(created, Created::New(_)), "{created:?}");
    }

    async fn switch_endpoint(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        id: EndpointId,
        state: EndpointState,
    ) {
        let found = self.find_endpoint(environment, application, &Locator::Id(id)).await.unwrap();
        // Like the API above: what is not there cannot be switched.
        let Some(endpoint) = found else { return };
        let replaced = self.replace_endpoint(environment, &Endpoint { state, ..endpoint }, None).await.unwrap();
        assert!(matches!(replaced, Replaced::Done(_)), "{replaced:?}");
    }

    async fn drop_endpoint(&self, environment: EnvironmentId, application: ApplicationId, id: EndpointId) -> bool {
        self.delete_endpoint(environment, application, id).await.unwrap()
    }

    async fn drop_application(&self, environment: EnvironmentId, id: ApplicationId) -> bool {
        self.delete_application(environment, id).await.unwrap()
    }

    async fn attempts_of(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        message: MessageId,
    ) -> Vec<Attempt> {
        let filter = AttemptFilter {
            of: AttemptsOf::Message(message, None),
            slice: Slice { after: None, order: Order::Ascending, limit: PAGE_MAX },
            result: None,
            status_class: None,
            before: None,
            after: None,
            channel: None,
            tag: None,
            event_types: Vec::new(),
            scan: PAGE_MAX,
        };
        self.list_attempts(environment, application, &filter).await.unwrap().rows
    }

    async fn destinations_of(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        message: MessageId,
    ) -> Vec<Destination> {
        self.list_destinations(environment, application, message).await.unwrap()
    }

    async fn ask_resend(&self, environment: EnvironmentId, resend: &Resend) -> Resent {
        self.resend(environment, resend).await.unwrap()
    }

    async fn ask_redrive(&self, environment: EnvironmentId, redrive: &Redrive) -> usize {
        self.redrive(environment, redrive).await.unwrap()
    }

    async fn drop_payload(&self, environment: EnvironmentId, application: ApplicationId, message: MessageId) -> bool {
        self.expunge_message(environment, application, message).await.unwrap()
    }
}

#[async_trait]
impl Stage for MemStore {
    async fn stage_environment(&self, _: OrgId, name: &str) -> EnvironmentId {
        // It has no table of them: any number does, as long as another name gets another one.
        EnvironmentId(name.bytes().fold(0, |number, byte| number * 31 % 1_000_003 + i32::from(byte)))
    }

    async fn stage_application(&self, environment: EnvironmentId, application: &Application) {
        self.put_application(environment, application.id);
    }

    async fn stage_endpoint(&self, environment: EnvironmentId, endpoint: &Endpoint) {
        self.put_endpoint(environment, endpoint.clone());
    }

    async fn switch_endpoint(
        &self,
        environment: EnvironmentId,
        _: ApplicationId,
        id: EndpointId,
        state: EndpointState,
    ) {
        match state {
            EndpointState::Enabled => self.enable_endpoint(environment, id),
            EndpointState::Disabled | EndpointState::Gone => self.disable_endpoint(environment, id),
        }
    }

    async fn drop_endpoint(&self, environment: EnvironmentId, _: ApplicationId, id: EndpointId) -> bool {
        self.delete_endpoint(environment, id)
    }

    async fn drop_application(&self, environment: EnvironmentId, id: ApplicationId) -> bool {
        self.delete_application(environment, id)
    }

    async fn attempts_of(&self, environment: EnvironmentId, _: ApplicationId, message: MessageId) -> Vec<Attempt> {
        self.attempts(environment, message)
    }

    async fn destinations_of(
        &self,
        environment: EnvironmentId,
        _: ApplicationId,
        message: MessageId,
    ) -> Vec<Destination> {
        self.destinations(environment, message)
    }

    async fn ask_resend(&self, environment: EnvironmentId, resend: &Resend) -> Resent {
        self.resend(environment, resend)
    }

    async fn ask_redrive(&self, environment: EnvironmentId, redrive: &Redrive) -> usize {
        self.redrive(environment, redrive)
    }

    async fn drop_payload(&self, environment: EnvironmentId, application: ApplicationId, message: MessageId) -> bool {
        self.expunge_message(environment, application, message)
    }
}
