use everhook_core::seal::{SealKeyId, SealKeyState};

use super::*;

fn at(seconds: u64) -> Timestamp {
    Timestamp::default().plus(Duration::from_secs(1_777_896_000 + seconds))
}

fn healthy() -> PostgresFacts {
    PostgresFacts {
        address: "db:5432".to_owned(),
        now: at(0),
        version: "15.18".to_owned(),
        version_number: 15_00_18,
        fsync: true,
        full_page_writes: true,
        synchronous_commit: "on".to_owned(),
        synchronous_standby_names: String::new(),
        connections_max: 100,
        connections_used: 10,
        is_standby: false,
        schema: (9, 9),
        refused: None,
    }
}

fn text(checks: &[Check]) -> String {
    checks.iter().map(Check::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_healthy_database_has_no_remedies() {
    insta::assert_snapshot!(text(&postgres(&healthy(), 12, true, at(1))), @"
    ok    store         db:5432 answers, PostgreSQL 15.18
    ok    schema        version 9
    ok    durability    fsync = on, synchronous_commit = on, no synchronous standby
    ok    clock         this machine is 1.0 s ahead of the database
    ok    connections   10 of 100 are in use, a replica needs 15
    ");
}

#[test]
fn each_problem_of_a_database_has_a_remedy() {
    let ill = PostgresFacts {
        now: at(300),
        version: "12.4".to_owned(),
        version_number: 12_00_04,
        fsync: false,
        synchronous_commit: "off".to_owned(),
        connections_used: 95,
        schema: (7, 9),
        ..healthy()
    };
    insta::assert_snapshot!(text(&postgres(&ill, 12, false, at(0))), @"
    warn  store         db:5432 runs PostgreSQL 12.4, which gets no more fixes
                        → upgrade it; Everhook is tested with version 15
    warn  schema        version 7, this binary knows 9
                        → run `everhook migrate`
    fail  durability    fsync, synchronous_commit is off: a crash could lose accepted messages, and no server starts
                        → turn it on in postgresql.conf and reload PostgreSQL
    fail  clock         this machine is 300.0 s behind the database
                        → synchronise both clocks (`timedatectl status`): receivers refuse signatures that are five minutes off
    warn  connections   95 of 100 are in use, a replica needs 15
                        → raise max_connections, lower `database_pool`, or use a pooler
    ");
    let state = |facts: PostgresFacts| {
        postgres(&facts, 12, true, at(0)).iter().map(|check| check.state).max_by_key(|state| *state as u8)
    };
    assert_eq!(state(PostgresFacts { is_standby: true, ..healthy() }), Some(State::Fail));
    let refused = Some("the schema at db has version 20: upgrade everhook".to_owned());
    assert_eq!(state(PostgresFacts { refused, ..healthy() }), Some(State::Fail));
    let local = PostgresFacts {
        synchronous_commit: "local".to_owned(),
        synchronous_standby_names: "b".to_owned(),
        ..healthy()
    };
    assert_eq!(state(local), Some(State::Warn));
}

#[test]
fn a_folder_is_checked_for_space_permissions_and_a_clock_that_went_back() {
    let facts = SqliteFacts {
        file: Some("/data/everhook.db".into()),
        bytes: 5 << 20,
        changed_at: Some(at(600)),
        schema: Some((9, 9)),
        server: Some(42),
        mode: Some(0o755),
    };
    let folder = Path::new("/data");
    let mut checks = sqlite(folder, &facts, at(0));
    checks.push(disk(folder, Some(Disk { free: 50 << 20, total: 100 << 30 })));
    checks.push(disk(folder, Some(Disk { free: 3 << 30, total: 100 << 30 })));
    checks.push(disk(folder, Some(Disk { free: 50 << 30, total: 100 << 30 })));
    insta::assert_snapshot!(text(&checks), @"
    ok    store         /data/everhook.db (5.0 MiB), served by process 42
    warn  permissions   other users may read /data (mode 755), which holds payloads and secrets
                        → run `chmod -R go= /data`
    ok    schema        version 9
    ok    durability    synchronous = full: every commit is on disk before it is acknowledged
    warn  clock         the clock is 600 s behind the last change of the store
                        → synchronise the clock (`timedatectl status`): receivers check the time of signatures
    fail  disk          50.0 MiB of 100.0 GiB are free
                        → make room or move the folder: without space the server refuses new messages, and loses none
    warn  disk          3.0 GiB of 100.0 GiB are free
                        → make room or move the folder: without space the server refuses new messages, and loses none
    ok    disk          50.0 GiB of 100.0 GiB are free
    ");
}

#[test]
fn egress_keys_files_and_ports_have_rules() {
    let networks = |list: &[&str]| list.iter().map(|network| network.parse().unwrap()).collect::<Vec<IpNet>>();
    let address: SocketAddr = ([127, 0, 0, 1], 8071).into();
    let proxy: Proxy = "http://user:secret@proxy.test:4750".parse().unwrap();
    let narrow = Egress {
        deny: networks(&["192.0.2.0/24"]),
        hosts: vec!["*.example.com".parse().unwrap()],
        ports: vec![443, 8443],
        ..Egress::new(Vec::new(), true)
    };
    let key = |byte: u8, state| NeededKey { id: SealKeyId::from_bytes([byte; 6]), state };
    let needed = [key(1, SealKeyState::Current), key(2, SealKeyState::Retiring)];
    let checks = [
        egress(&Egress::new(Vec::new(), true), None),
        egress(&Egress::new(networks(&["10.0.0.0/8"]), false), Some(&proxy)),
        egress(&Egress::new(networks(&["0.0.0.0/0"]), false), None),
        egress(&narrow, Some(&proxy.clone().resolving(true))),
        vec![
            keys(&Keys { active: 0, total: 0, is_bootstrap_known: true }),
            keys(&Keys { active: 0, total: 2, is_bootstrap_known: true }),
            keys(&Keys { active: 2, total: 2, is_bootstrap_known: false }),
            secrets(&[], &SealSource::Folder),
            secrets(&[], &SealSource::File("keys".into())),
            secrets(&needed[..1], &SealSource::Folder),
            secrets(&needed, &SealSource::Folder),
            open_files(Some(Shortage { limit: 1024, needed: 13_240 })),
            port(&Port { name: "listen", address, used: PortUse::Free }, false),
            port(&Port { name: "listen", address, used: PortUse::Everhook }, false),
            port(&Port { name: "listen", address, used: PortUse::Other }, false),
            port(&Port { name: "listen", address, used: PortUse::Refused("denied".to_owned()) }, false),
            pause(Some(&EgressPause { since: at(0), reason: "a test".to_owned() })),
        ],
    ];
    insta::assert_snapshot!(text(&checks.concat()), @r"
ok    egress        public addresses only, https only
ok    egress        public addresses and 10.0.0.0/8, http and https, through a proxy
warn  egress        `egress_allow` has 0.0.0.0/0, which contains the metadata service of cloud machines
                    → allow smaller networks: an endpoint could read the credentials of this machine
ok    egress        public addresses only without 192.0.2.0/24, hosts *.example.com, ports 443, 8443, https only, through a proxy that must check the addresses of names
ok    keys          none yet: the first start creates one
fail  keys          all keys are revoked or expired
                    → run `everhook key create`
warn  keys          2 active, and `bootstrap_key` is not one of them
                    → remove `bootstrap_key`: only an empty store uses it
warn  secrets       stored as plain text
                    → start the server on an embedded database; with PostgreSQL, set `secrets_key_file` on every replica
warn  secrets       stored as plain text
                    → run `everhook secrets rotate` once every replica has the keys
ok    secrets       sealed with the key 010101010101
warn  secrets       a rotation to the key 010101010101 has not ended
                    → run `everhook secrets rotate`, and keep the old keys until then
warn  open files    this process may open 1024 files but its configuration needs 13240
                    → raise the limit (`ulimit -n`, LimitNOFILE of systemd), or lower `slots` and `job_slots`
ok    listen        127.0.0.1:8071 is free
ok    listen        an Everhook server answers on 127.0.0.1:8071
fail  listen        another program uses 127.0.0.1:8071
                    → stop it, or change `listen`
fail  listen        could not listen on 127.0.0.1:8071: denied
                    → set `listen` to an address of this machine and a port above 1023
warn  pause         egress is paused since 2026-05-04T12:00:00.000000Z: a test
                    → `everhook egress resume` sends the waiting deliveries
");
}

#[test]
fn a_database_that_cannot_be_reached_has_a_remedy() {
    let refused = "could not connect to postgres at db:5432: error connecting to server: Connection refused";
    insta::assert_snapshot!(unreachable(refused, true), @"
    fail  store         could not connect to postgres at db:5432: error connecting to server: Connection refused
                        → start the database, or correct `database` (EVERHOOK_DATABASE): servers wait for it and lose nothing
    ");
    let password = "could not connect to postgres at db:5432: db error: password authentication failed";
    insta::assert_snapshot!(unreachable(password, false), @"
    fail  store         could not connect to postgres at db:5432: db error: password authentication failed
                        → correct the user, the password and the name of the database in `database` (EVERHOOK_DATABASE)
    ");
}

#[test]
fn a_clock_that_is_off_is_a_line_of_the_log() {
    assert_eq!(skew(at(0), at(1)).problem(), None);
    insta::assert_snapshot!(skew(at(0), at(300)).problem().unwrap(), @"this machine is 300.0 s ahead of the database: synchronise both clocks (`timedatectl status`): receivers refuse signatures that are five minutes off");
}
