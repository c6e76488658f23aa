//! Functions to prepare and inspect a store in cases, with default values for everything that a case is not about.

use async_trait::async_trait;
use everhook_core::application::Application;
use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, MessageId, OrgId};
use everhook_core::limits::{ENDPOINTS_MAX, PAGE_MAX};
use everhook_core::scope::{AppScope, Scope};
use everhook_store::catalog::{Created, Locator, Order, Replaced, Slice};
use everhook_store::history::{Attempt, AttemptFilter, AttemptsOf, Destination, Expunge, Redrive, Resend, Resent};
use everhook_store::query;
use everhook_store::resource::{New, ResourceKey};
use everhook_store::steer::Steer;
use everhook_store::store::{Reads, Resources, Store};

#[async_trait]
pub trait Stage: Store {
    async fn stage_environment(&self, org: OrgId, name: &str) -> EnvironmentId;
    async fn stage_application(&self, environment: EnvironmentId, application: &Application);
    async fn stage_endpoint(&self, environment: EnvironmentId, endpoint: &Endpoint);
    async fn switch_endpoint(&self, scope: AppScope, id: EndpointId, state: EndpointState);
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
impl<S: Store> Stage for S {
    async fn stage_environment(&self, org: OrgId, name: &str) -> EnvironmentId {
        self.ensure_environment(org, name.to_owned()).await.unwrap().id
    }

    async fn stage_application(&self, environment: EnvironmentId, application: &Application) {
        let created = self.create(Scope::of(environment), application.clone(), None).await.unwrap();
        assert!(matches!(created, Created::New(_)), "{created:?}");
    }

    async fn stage_endpoint(&self, environment: EnvironmentId, endpoint: &Endpoint) {
        let created = self
            .create(Scope::of(environment), New { record: endpoint.clone(), max: ENDPOINTS_MAX }, None)
            .await
            .unwrap();
        assert!(matches!(created, Created::New(_)), "{created:?}");
    }

    async fn switch_endpoint(&self, scope: AppScope, id: EndpointId, state: EndpointState) {
        let found = self.read(query::FindEndpoint { scope, locator: Locator::Id(id) }).await.unwrap();
        // As in the API, an endpoint that does not exist cannot be enabled or disabled.
        let Some(endpoint) = found else { return };
        let replaced = self.replace(scope.scope(), Endpoint { state, ..endpoint }).await.unwrap();
        assert!(matches!(replaced, Replaced::Done(_)), "{replaced:?}");
    }

    async fn drop_endpoint(&self, environment: EnvironmentId, application: ApplicationId, id: EndpointId) -> bool {
        self.delete(Scope::of(environment), ResourceKey::Endpoint(application, id)).await.unwrap().is_done()
    }

    async fn drop_application(&self, environment: EnvironmentId, id: ApplicationId) -> bool {
        self.delete(Scope::of(environment), ResourceKey::Application(id)).await.unwrap().is_done()
    }

    async fn attempts_of(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        message: MessageId,
    ) -> Vec<Attempt> {
        let slice = Slice { after: None, order: Order::Ascending, limit: PAGE_MAX };
        let filter = AttemptFilter::of(AttemptsOf::Message(message, None), slice, PAGE_MAX);
        self.read(query::Attempts { scope: AppScope::of(environment, application), filter }).await.unwrap().rows
    }

    async fn destinations_of(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        message: MessageId,
    ) -> Vec<Destination> {
        self.read(query::Destinations { scope: AppScope::of(environment, application), message }).await.unwrap()
    }

    async fn ask_resend(&self, environment: EnvironmentId, resend: &Resend) -> Resent {
        self.resend(Scope::of(environment), resend.clone()).await.unwrap()
    }

    async fn ask_redrive(&self, environment: EnvironmentId, redrive: &Redrive) -> usize {
        self.steer(Scope::of(environment), Steer::Redrive(redrive.clone())).await.unwrap().answer.redriven
    }

    async fn drop_payload(&self, environment: EnvironmentId, application: ApplicationId, message: MessageId) -> bool {
        self.expunge(AppScope::of(environment, application), Expunge::Message(message)).await.unwrap()
    }
}
