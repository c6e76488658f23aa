use super::*;

/// The error or the shown settings of a file, variables and flags.
fn check(file: &str, variables: &[(&str, &str)], flags: Flags) -> Result<Config, String> {
    let mut settings = Settings::defaults();
    let variables = variables.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
    let config = settings
        .add_file(Path::new("everhook.toml"), file)
        .and_then(|()| settings.add_variables(variables))
        .and_then(|()| {
            settings.add_flags(flags);
            settings.check()
        });
    config.map_err(|error| format!("{error:#}"))
}

#[test]
fn the_template_has_every_key_and_its_defaults_can_be_used() {
    for (key, _) in KEYS {
        assert!(
            ["\n{} = ", "# {} = ", "# [[{}]]"].iter().any(|form| Settings::TEMPLATE.contains(&form.replace("{}", key)))
        );
    }
    let config = check("", &[], Flags::default()).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:8071");
    assert_eq!(config.retry, RetryPolicy::default());
    assert_eq!(config.lease, Duration::from_secs(20));
}

#[test]
fn flags_win_over_variables_over_the_file() {
    let flags = Flags { listen: Some("127.0.0.1:3".to_owned()), ..Flags::default() };
    let file = "listen = '127.0.0.1:1'\nlease_seconds = 7\nslots = 300";
    let config = check(file, &[("listen", "127.0.0.1:2"), ("lease_seconds", "8")], flags).unwrap();
    assert_eq!(config.listen.port(), 3);
    assert_eq!(config.lease, Duration::from_secs(8));
    assert_eq!(config.dispatch.slots, 300);
}

#[test]
fn a_retry_schedule_is_a_list_of_delays() {
    let config = check("", &[("retry_schedule", "1,1,2.5")], Flags::default()).unwrap();
    assert_eq!(config.retry.attempts_max(), 4);
    let config = check("", &[("retry_schedule", "")], Flags::default()).unwrap();
    assert_eq!(config.retry.attempts_max(), 1);
}

#[test]
fn a_higher_layer_that_names_one_store_puts_aside_the_other() {
    let database = "database = 'postgres://localhost/x'";
    let config = check(database, &[("data", "./here")], Flags::default()).unwrap();
    assert!(matches!(config.store, StoreConfig::Sqlite { .. }));
    let config = check(database, &[], Flags::default()).unwrap();
    assert!(matches!(config.store, StoreConfig::Postgres { .. }));
}

#[test]
fn a_node_is_everything_unless_it_is_told_otherwise() {
    let role = |flag: Option<&str>, file: &str, variables: &[(&str, &str)]| {
        let flags = Flags { role: flag.map(str::to_owned), ..Flags::default() };
        check(file, variables, flags).map(|config| config.role)
    };
    assert_eq!(role(None, "", &[]), Ok(Role::All));
    let database = "database = 'postgres://localhost/x'";
    assert_eq!(role(None, database, &[("role", "api")]), Ok(Role::Api));
    assert_eq!(role(Some("worker"), database, &[("role", "api")]), Ok(Role::Worker));
    assert!(role(Some("boss"), database, &[]).unwrap_err().contains("use all, api or worker"));
    let alone = role(Some("worker"), "", &[]).unwrap_err();
    assert!(alone.contains("`role` is worker (flag)") && alone.contains("set `database`"), "{alone}");
}

#[test]
fn errors_name_the_key_the_source_and_the_remedy() {
    let fail = |file: &str, variables: &[(&str, &str)]| check(file, variables, Flags::default()).map(drop).unwrap_err();
    assert!(fail("listne = ''", &[]).starts_with("unknown setting `listne` (everhook.toml): correct or remove it"));
    assert!(fail("", &[("lease", "3")]).starts_with("unknown setting `lease` (EVERHOOK_LEASE)"));
    assert_eq!(fail("slots = 'x'", &[]), "bad `slots` (everhook.toml): a whole number is expected");
    assert_eq!(fail("", &[("slots", "x")]), "bad EVERHOOK_SLOTS: \"x\": a whole number is expected");
    assert_eq!(fail("lease_seconds = 0", &[]), "bad `lease_seconds` 0 (everhook.toml): use 1 to 3600");
    assert_eq!(
        fail("data = 'a'\ndatabase = 'postgres://b'", &[]),
        "`data` and `database` are both set (everhook.toml): keep one of them"
    );
    assert_eq!(
        fail("egress_allow = ['10/8']", &[]),
        "bad network \"10/8\" in `egress_allow`: use the form 10.0.0.0/8 or fd00::/8"
    );
    assert!(fail("slots = 5", &[]).starts_with("`slots_per_endpoint` is 250 but `slots` is 5"));
    assert!(fail("log_format = 'xml'", &[]).contains("use text or json"));
    assert!(fail("jwt_secret = 'short'", &[]).contains("too short"));
    assert!(fail("database = 'mysql://x'", &[]).contains("postgres://"));
    assert!(fail("x = [", &[]).starts_with("everhook.toml is not valid TOML"));
    assert!(fail("retry_schedule = [-1]", &[]).contains("bad delay -1"));
}

#[test]
fn secrets_are_redacted_where_settings_are_shown() {
    let mut settings = Settings::defaults();
    let file = "jwt_secret = 'hunter2hunter2hunter2'\ndatabase = 'postgres://me:hunter2@db:5432/x?password=hunter2'";
    settings.add_file(Path::new("everhook.toml"), file).unwrap();
    let shown = settings.show();
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("database = \"postgres://me:***@db:5432/x\" # everhook.toml"), "{shown}");
    assert!(shown.contains("slots = 1000 # default"), "{shown}");
}

#[test]
fn outboxes_have_names_and_places() {
    let shop = "[[outbox]]\nname = 'shop'\ndatabase = 'postgres://me:hunter2@db/shop'\nenvironment = 'default'\n";
    let till = "[[outbox]]\nname = 'till'\nsqlite = 'till.db'\npoll_interval_ms = 100\n";
    let config = check(&format!("{shop}{till}"), &[], Flags::default()).unwrap();
    assert_eq!(config.outboxes.iter().map(|outbox| outbox.name.as_str()).collect::<Vec<_>>(), ["shop", "till"]);
    assert_eq!(config.outboxes[1].poll_interval, Duration::from_millis(100));
    let mut settings = Settings::defaults();
    settings.add_file(Path::new("everhook.toml"), shop).unwrap();
    assert!(!settings.show().contains("hunter2") && settings.show().contains("postgres://me:***@db/shop"));

    let fail = |file: &str| check(file, &[], Flags::default()).map(drop).unwrap_err();
    assert!(fail(&shop.repeat(2)).contains("give each its own"));
    assert!(fail("[[outbox]]\nname = 'main'\nsqlite = 'x'").contains("give each its own"));
    assert!(fail("[[outbox]]\nsqlite = 'x'").contains("has no `name`"));
    assert!(fail("[[outbox]]\nname = 'a b'\nsqlite = 'x'").contains("bad `name`"));
    assert!(fail("[[outbox]]\nname = 'a'").contains("set either `database` or `sqlite`"));
    assert!(fail("[[outbox]]\nname = 'a'\nsqlite = 'x'\npoll_interval_ms = 1").contains("from 5 to 3600000"));
    assert!(fail("[[outbox]]\nname = 'a'\nsqllite = 'x'").contains("unknown setting `sqllite`"));
    assert!(fail("outbox = 3").contains("[[…]] in the settings file"));
    let variable = check("", &[("outbox", "x")], Flags::default()).map(drop).unwrap_err();
    assert!(variable.contains("[[…]] in the settings file"), "{variable}");
}
