//! A server with one application, and a receiver behind its endpoint: the start of most tests.

use std::sync::Arc;

use everhook_testkit::receiver::Receiver;

use crate::binary::client::{Application, Endpoint};
use crate::binary::server::{Backend, Server};

/// The parts that tests use by name.
pub(crate) struct Scene {
    pub(crate) server: Server,
    pub(crate) receiver: Receiver,
    pub(crate) application: Application,
    /// The endpoint at `/` of the receiver.
    pub(crate) endpoint: Endpoint,
}

impl Scene {
    /// Starts a server with these settings (without `EVERHOOK_`), and creates the application and its endpoint.
    #[track_caller]
    pub(crate) fn start(backend: &Arc<Backend>, settings: &[(&str, &str)]) -> Scene {
        let (server, receiver) = (Server::start(backend, settings), Receiver::start());
        let application = server.client().application("Acme");
        let endpoint = application.endpoint(&receiver.url("/"));
        Scene { server, receiver, application, endpoint }
    }
}
