//! A TCP proxy between a server and its database, whose connections can be cut or stalled.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// How the proxy treats traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    Passes,
    /// Connections are closed, and new ones are refused.
    IsCut,
    /// No byte passes in either direction, and connections stay open.
    Stalls,
}

pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    target: String,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    traffic: Traffic,
    connections: Vec<TcpStream>,
    closed: bool,
}

impl Proxy {
    /// Starts a proxy in front of `target`, a host with a port.
    pub(crate) fn start(target: String) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Mutex::new(State { traffic: Traffic::Passes, connections: Vec::new(), closed: false });
        let shared = Arc::new(Shared { target, state, changed: Condvar::new() });
        let listening = Arc::clone(&shared);
        thread::spawn(move || listening.listen(&listener));
        Proxy { port, shared }
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Changes the treatment of traffic. Stalled connections are closed, because their bytes would arrive late but
    /// complete.
    pub(crate) fn set(&self, traffic: Traffic) {
        let mut state = self.shared.state.lock().unwrap();
        if traffic == Traffic::IsCut || state.traffic == Traffic::Stalls {
            for connection in state.connections.drain(..) {
                let _ = connection.shutdown(Shutdown::Both);
            }
        }
        state.traffic = traffic;
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.set(Traffic::IsCut);
        self.shared.state.lock().unwrap().closed = true;
        // The listening thread checks the flag when a connection arrives.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    fn listen(self: &Arc<Shared>, listener: &TcpListener) {
        for client in listener.incoming() {
            let state = self.state.lock().unwrap();
            if state.closed {
                return;
            }
            let Ok(client) = client else { continue };
            if state.traffic == Traffic::IsCut {
                continue;
            }
            drop(state);
            let Ok(server) = TcpStream::connect(&self.target) else { continue };
            self.join(client, server);
        }
    }

    fn join(self: &Arc<Shared>, client: TcpStream, server: TcpStream) {
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let pairs = [(client.try_clone(), server.try_clone()), (server.try_clone(), client.try_clone())];
        self.state.lock().unwrap().connections.extend([client, server]);
        for pair in pairs {
            let (Ok(from), Ok(to)) = pair else { continue };
            let shared = Arc::clone(self);
            thread::spawn(move || shared.copy(from, to));
        }
    }

    fn copy(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let state = self.state.lock().unwrap();
            drop(self.changed.wait_while(state, |state| state.traffic == Traffic::Stalls).unwrap());
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
    }
}
