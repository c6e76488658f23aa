//! Scopes: whose objects an operation is about. Every operation of a store names one, so that no tenant sees another's.

use crate::id::{ApplicationId, EnvironmentId};

/// Everything of one environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope {
    pub environment: EnvironmentId,
}

impl Scope {
    pub const fn of(environment: EnvironmentId) -> Scope {
        Scope { environment }
    }

    /// One application of the environment.
    pub const fn application(self, application: ApplicationId) -> AppScope {
        AppScope { environment: self.environment, application }
    }
}

/// Everything of one application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppScope {
    pub environment: EnvironmentId,
    pub application: ApplicationId,
}

impl AppScope {
    pub const fn of(environment: EnvironmentId, application: ApplicationId) -> AppScope {
        AppScope { environment, application }
    }

    /// The environment of the application.
    pub const fn scope(self) -> Scope {
        Scope { environment: self.environment }
    }
}

impl From<AppScope> for Scope {
    fn from(scope: AppScope) -> Scope {
        scope.scope()
    }
}
