//! Tests against scripted name servers on the loopback interface.

use hickory_resolver::config::ConnectionConfig;

use super::*;

const A: u16 = 1;
const AAAA: u16 = 28;
/// Longer than a look-up may take, and shorter than the time-out of a name server.
const BUDGET: Duration = Duration::from_secs(4);

/// Starts a name server with these answers for every name; it ignores other questions. Returns its port.
fn name_server(answers: &'static [(u16, &'static str)]) -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut query = [0; 1500];
        while let Ok((length, from)) = socket.recv_from(&mut query) {
            let reply = reply(&query[..length], answers);
            reply.map(|reply| socket.send_to(&reply, from).unwrap());
        }
    });
    port
}

fn reply(query: &[u8], answers: &[(u16, &str)]) -> Option<Vec<u8>> {
    // A header of 12 bytes, the name as labels, its end, type and class.
    let mut end = 12;
    while query[end] != 0 {
        end += usize::from(query[end]) + 1;
    }
    let (end, kind) = (end + 5, u16::from_be_bytes([query[end + 1], query[end + 2]]));
    let (_, answer) = answers.iter().find(|(of, _)| *of == kind)?;
    let address = match answer.parse() {
        Ok(IpAddr::V4(ip)) => ip.octets().to_vec(),
        Ok(IpAddr::V6(ip)) => ip.octets().to_vec(),
        Err(_) => Vec::new(),
    };
    let mut reply = query[..2].to_vec();
    let count = u8::from(!address.is_empty());
    reply.extend([0x81, 0x80, 0, 1, 0, count, 0, 0, 0, 0]);
    reply.extend(&query[12..end]);
    if count > 0 {
        // The name is the one at byte 12; class IN; TTL of one minute.
        reply.extend([0xc0, 12, 0, kind as u8, 0, 1, 0, 0, 0, 60, 0, address.len() as u8]);
        reply.extend(&address);
    }
    Some(reply)
}

fn read(files: &[String]) -> Read {
    let port = std::fs::read_to_string(&files[0])?.parse().map_err(|_| NetError::Message("no port"))?;
    let mut server = NameServerConfig::udp(Ipv4Addr::LOCALHOST.into());
    server.connections = vec![ConnectionConfig::udp()];
    server.connections[0].port = port;
    Ok((ResolverConfig::from_parts(None, Vec::new(), vec![server]), ResolverOpts::default()))
}

struct Stage {
    resolver: Resolver,
    folder: tempfile::TempDir,
}

impl Stage {
    fn new(port: u16) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("resolv.conf");
        std::fs::write(&file, port.to_string()).unwrap();
        let files = vec![file.display().to_string()];
        let settings = Settings { files, read, checked_every: Duration::ZERO };
        Stage { resolver: Resolver::new(settings).unwrap(), folder }
    }

    fn write(&self, text: &str) {
        // System tools replace the file in the same way.
        let new = self.folder.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.folder.path().join("resolv.conf")).unwrap();
    }

    async fn look_up(&self, name: &str) -> Result<Vec<String>, String> {
        let addresses = timeout(BUDGET, self.resolver.addresses(name)).await.map_err(|_| "too late".to_owned())?;
        addresses.map(|found| found.iter().map(IpAddr::to_string).collect()).map_err(|error| error.to_string())
    }
}

#[tokio::test]
async fn both_kinds_of_addresses_are_found() {
    let stage = Stage::new(name_server(&[(A, "192.0.2.1"), (AAAA, "2001:db8::1")]));
    assert_eq!(stage.look_up("host.test.").await.unwrap(), ["192.0.2.1", "2001:db8::1"]);
}

#[tokio::test]
async fn a_kind_that_is_not_answered_for_does_not_hide_the_other() {
    let stage = Stage::new(name_server(&[(A, "192.0.2.1")]));
    assert_eq!(stage.look_up("host.test.").await.unwrap(), ["192.0.2.1"]);
    let stage = Stage::new(name_server(&[(AAAA, "2001:db8::1")]));
    assert_eq!(stage.look_up("host.test.").await.unwrap(), ["2001:db8::1"]);
}

#[tokio::test]
async fn a_kind_that_does_not_exist_does_not_hide_the_other() {
    let stage = Stage::new(name_server(&[(A, "none"), (AAAA, "2001:db8::1")]));
    assert_eq!(stage.look_up("host.test.").await.unwrap(), ["2001:db8::1"]);
    let stage = Stage::new(name_server(&[(A, "none"), (AAAA, "none")]));
    let found = timeout(BUDGET, stage.resolver.addresses("host.test.")).await.unwrap();
    assert!(found.unwrap_err().is_no_records_found());
}

#[tokio::test]
async fn names_may_have_underscores() {
    let stage = Stage::new(name_server(&[(A, "192.0.2.1"), (AAAA, "none")]));
    for name in ["my_host.test.", "_my.host_.test.", "xn--bcher-kva.test."] {
        assert_eq!(stage.look_up(name).await.unwrap(), ["192.0.2.1"], "{name}");
    }
}

#[tokio::test]
async fn other_name_servers_are_asked_after_the_settings_have_changed() {
    let stage = Stage::new(name_server(&[(A, "192.0.2.1"), (AAAA, "none")]));
    assert_eq!(stage.look_up("host.test.").await.unwrap(), ["192.0.2.1"]);
    stage.write("half wri");
    assert_eq!(stage.look_up("host.test.").await.unwrap(), ["192.0.2.1"], "nobody knows any better");
    stage.write(&name_server(&[(A, "192.0.2.2"), (AAAA, "none")]).to_string());
    assert_eq!(stage.look_up("host.test.").await.unwrap(), ["192.0.2.2"]);
}
