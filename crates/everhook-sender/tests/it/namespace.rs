//! The guard in a network of its own, where every address answers.
//!
//! In the namespace, all addresses of IPv4 and IPv6 belong to this machine, so that a listener on all addresses is a
//! canary in every forbidden range. A scripted name server answers with forbidden, mixed and changing addresses. A
//! connection to a forbidden address, even one without a request, fails the test.
//!
//! The test starts itself again inside the namespace. Where the system allows no namespaces, it prints a line and
//! passes.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everhook_core::outcome::Class;
use everhook_sender::{Deadlines, Egress, Sender, SenderConfig};

use crate::post;

const INSIDE: &str = "namespace::inside_the_namespace";
const PORT: u16 = 8080;
const WAIT: Duration = Duration::from_secs(20);

const FORBIDDEN: &[&str] = &[
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.9.9.9",
    "168.63.129.16",
    "169.254.0.23",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.254",
    "192.0.0.192",
    "192.0.2.1",
    "192.31.196.1",
    "192.52.193.1",
    "192.88.99.1",
    "192.168.1.1",
    "192.175.48.1",
    "198.18.0.1",
    "198.19.255.254",
    "198.51.100.1",
    "203.0.113.1",
    "240.0.0.1",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2620:4f:8000::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fec0::1",
];
const PUBLIC: [&str; 3] = ["8.8.8.8", "93.184.216.34", "2606:4700::1111"];

#[test]
fn not_one_connection_reaches_a_forbidden_address() {
    let setup = format!(
        "ip link set lo up && ip route add local 0.0.0.0/0 dev lo && ip -6 route add local ::/0 dev lo && \
         exec \"$0\" --exact {INSIDE} --ignored --nocapture"
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "sh", "-c", &setup]);
    let output = match command.arg(std::env::current_exe().unwrap()).output() {
        Ok(output) => output,
        Err(error) => return skip(&error.to_string()),
    };
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !out.contains("running 1 test") {
        return skip(&err);
    }
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("1 passed"), "{out}");
}

#[expect(clippy::print_stderr, reason = "a test that proves nothing must say so")]
fn skip(reason: &str) {
    eprintln!("SKIPPED: this system allows no network namespace: {}", reason.trim());
}

#[tokio::test]
#[ignore = "runs inside the namespace that another test makes"]
async fn inside_the_namespace() {
    let zone = Zone::default();
    zone.serve();
    let canary = Canary::start();
    // The test is worthless unless the canary hears forbidden addresses.
    canary.hears_everything();
    let deadlines = Deadlines { connect: WAIT, tls: WAIT, write: WAIT, first_byte: WAIT, total: WAIT };
    let sender =
        || Sender::new(SenderConfig { egress: Egress::default(), deadlines, ..SenderConfig::default() }).unwrap();
    for ip in FORBIDDEN {
        check_blocked(&sender(), &literal(ip)).await;
        // A name with this address alone, and beside public ones in every position.
        zone.set(&[ip]);
        check_blocked(&sender(), "name.test").await;
        zone.set(&[PUBLIC[0], ip, PUBLIC[1]]);
        check_blocked(&sender(), "name.test").await;
        zone.set(&[&PUBLIC[..], &[ip]].concat());
        check_blocked(&sender(), "name.test").await;
    }
    // A name that is public first and forbidden afterwards, with a TTL of 0: the address of the check is dialled.
    for ip in FORBIDDEN {
        zone.rebind(PUBLIC[0], ip);
        let sender = sender();
        for _ in 0..3 {
            let _ = sender.send(post(format!("http://name.test:{PORT}/"), "{}")).await;
        }
    }
    canary.heard_only_public();
}

fn literal(ip: &str) -> String {
    if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() }
}

async fn check_blocked(sender: &Sender, host: &str) {
    let failure = sender.send(post(format!("http://{host}:{PORT}/"), "{}")).await.expect_err(host);
    assert_eq!(failure.class, Class::Blocked, "{host}: {}", failure.detail);
}

/// Listens on every address and notes the addresses that were dialled.
struct Canary {
    dialled: Arc<Mutex<Vec<IpAddr>>>,
}

impl Canary {
    fn start() -> Canary {
        let canary = Canary { dialled: Arc::default() };
        for any in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
            let socket =
                socket2::Socket::new(socket2::Domain::for_address((any, PORT).into()), socket2::Type::STREAM, None);
            let socket = socket.unwrap();
            if any.is_ipv6() {
                socket.set_only_v6(true).unwrap();
            }
            socket.bind(&SocketAddr::from((any, PORT)).into()).unwrap();
            socket.listen(128).unwrap();
            let (listener, dialled) = (TcpListener::from(socket), Arc::clone(&canary.dialled));
            std::thread::spawn(move || {
                while let Ok((mut stream, _)) = listener.accept() {
                    dialled.lock().unwrap().push(stream.local_addr().unwrap().ip());
                    let _ = stream.read(&mut [0; 4096]);
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                }
            });
        }
        canary
    }

    fn hears_everything(&self) {
        for ip in ["10.0.0.1", "169.254.169.254", "192.168.1.1", "8.8.8.8", "fd00:ec2::254", "2001:db8::1"] {
            let mut stream = std::net::TcpStream::connect((ip.parse::<IpAddr>().unwrap(), PORT)).expect(ip);
            stream.write_all(b"x").unwrap();
            let _ = stream.read(&mut [0; 64]);
            assert_eq!(self.dialled.lock().unwrap().pop().unwrap().to_string(), ip);
        }
    }

    fn heard_only_public(&self) {
        let dialled = self.dialled.lock().unwrap();
        assert!(!dialled.is_empty(), "no rebinding attempt reached its first address");
        let public: Vec<IpAddr> = PUBLIC.iter().map(|ip| ip.parse().unwrap()).collect();
        assert!(dialled.iter().all(|ip| public.contains(ip)), "{dialled:?}");
    }
}

/// A name server for `name.test`. It listens on the addresses of the system's name servers.
#[derive(Clone, Default)]
struct Zone {
    answers: Arc<Mutex<Answers>>,
}

#[derive(Default)]
struct Answers {
    now: Vec<IpAddr>,
    /// Replaces `now` after one answer of each type.
    next: Option<IpAddr>,
    asked: BTreeMap<u16, u32>,
}

impl Zone {
    fn set(&self, ips: &[&str]) {
        let now = ips.iter().map(|ip| ip.parse().unwrap()).collect();
        *self.answers.lock().unwrap() = Answers { now, ..Answers::default() };
    }

    fn rebind(&self, first: &str, then: &str) {
        let (now, next) = (vec![first.parse().unwrap()], Some(then.parse().unwrap()));
        *self.answers.lock().unwrap() = Answers { now, next, ..Answers::default() };
    }

    fn serve(&self) {
        let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let listed = text.lines().filter_map(|line| line.strip_prefix("nameserver ")?.trim().parse::<IpAddr>().ok());
        let mut servers: Vec<IpAddr> = listed.chain([Ipv4Addr::LOCALHOST.into()]).collect();
        servers.sort();
        servers.dedup();
        for server in servers {
            let (socket, zone) = (UdpSocket::bind((server, 53)).unwrap(), self.clone());
            std::thread::spawn(move || {
                let mut query = [0; 1500];
                while let Ok((length, from)) = socket.recv_from(&mut query) {
                    let _ = socket.send_to(&zone.reply(&query[..length]), from);
                }
            });
        }
    }

    fn reply(&self, query: &[u8]) -> Vec<u8> {
        // A header of 12 bytes, the name as labels, its end, type and class.
        let mut end = 12;
        while query[end] != 0 {
            end += usize::from(query[end]) + 1;
        }
        let (end, kind) = (end + 5, u16::from_be_bytes([query[end + 1], query[end + 2]]));
        let ips = self.answers.lock().unwrap().take(kind);
        let mut reply = query[..2].to_vec();
        reply.extend([0x81, 0x80, 0, 1, 0, ips.len() as u8, 0, 0, 0, 0]);
        reply.extend(&query[12..end]);
        for ip in ips {
            // The name is the one at byte 12; class IN; a TTL of 0.
            reply.extend([0xc0, 12, 0, kind as u8, 0, 1, 0, 0, 0, 0, 0]);
            match ip {
                IpAddr::V4(ip) => {
                    reply.push(4);
                    reply.extend(ip.octets());
                }
                IpAddr::V6(ip) => {
                    reply.push(16);
                    reply.extend(ip.octets());
                }
            }
        }
        reply
    }
}

impl Answers {
    fn take(&mut self, kind: u16) -> Vec<IpAddr> {
        let asked = self.asked.entry(kind).or_default();
        *asked += 1;
        let list = match self.next {
            Some(next) if *asked > 1 => vec![next],
            _ => self.now.clone(),
        };
        list.into_iter().filter(|ip| ip.is_ipv4() == (kind == 1)).collect()
    }
}
