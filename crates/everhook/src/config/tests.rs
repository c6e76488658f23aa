use super::*;

/// Returns the configuration of a file, variables and flags, or the error.
fn check(file: &str, variables: &[(&str, &str)], flags: Flags) -> Result<Config, String> {
    let mut settings = Settings::defaults();
    let config = settings
        .add_file(Path::new("everhook.toml"), file)
        .and_then(|()| settings.add_variables(self::variables(variables)))
        .and_then(|()| {
            settings.add_flags(flags);
            settings.check()
        });
    config.map_err(|error| format!("{error:#}"))
}

fn variables(variables: &[(&str, &str)]) -> Vec<Variable> {
    let name = |key: &str| format!("EVERHOOK_{}", key.to_ascii_uppercase());
    variables.iter().map(|(key, text)| Variable { name: name(key), value: Some((*text).to_owned()) }).collect()
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
}

#[test]
fn a_queue_has_a_quarter_of_the_job_slots_unless_it_is_told_otherwise() {
    let per_queue = |file: &str| check(file, &[], Flags::default()).map(|config| config.jobs.slots_per_queue);
    assert_eq!(per_queue(""), Ok(16));
    assert_eq!(per_queue("job_slots = 400"), Ok(100));
    assert_eq!(per_queue("job_slots = 3"), Ok(1));
    assert_eq!(per_queue("job_slots = 8\njob_slots_per_queue = 8"), Ok(8));
    let refused = per_queue("job_slots = 8\njob_slots_per_queue = 9").unwrap_err();
    assert!(refused.contains("`job_slots_per_queue` is 9 but `job_slots` is 8"), "{refused}");
}

#[test]
fn a_push_ends_within_minutes() {
    let timeout = |file: &str| check(file, &[], Flags::default()).map(|config| config.jobs.push_timeout);
    assert_eq!(timeout(""), Ok(Duration::from_secs(300)));
    assert_eq!(timeout("job_push_timeout_seconds = 900"), Ok(Duration::from_secs(900)));
    let refused = timeout("job_push_timeout_seconds = 901").unwrap_err();
    assert_eq!(refused, "invalid `job_push_timeout_seconds` 901 (everhook.toml): use 1 to 900");
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
    assert_eq!(
        fail("listne = ''", &[]),
        "unknown setting `listne` (everhook.toml): did you mean `listen`? Correct or remove it"
    );
    assert!(
        fail("xyz = ''", &[])
            .starts_with("unknown setting `xyz` (everhook.toml): correct or remove it; known settings:")
    );
    assert_eq!(fail("slots = 'x'", &[]), "invalid `slots` (everhook.toml): expected a whole number");
    assert_eq!(fail("", &[("slots", "x")]), "invalid EVERHOOK_SLOTS \"x\": expected a whole number");
    assert_eq!(fail("lease_seconds = 0", &[]), "invalid `lease_seconds` 0 (everhook.toml): use 1 to 3600");
    assert_eq!(
        fail("data = 'a'\ndatabase = 'postgres://b'", &[]),
        "`data` and `database` are both set (everhook.toml): remove one of them"
    );
    assert_eq!(
        fail("egress_allow = ['10/8']", &[]),
        "invalid network \"10/8\" in `egress_allow`: use the form 10.0.0.0/8 or fd00::/8"
    );
    assert_eq!(
        fail("egress_deny = ['x']", &[]),
        "invalid network \"x\" in `egress_deny`: use the form 10.0.0.0/8 or fd00::/8"
    );
    for port in ["0", "65536", "-1", "80.5"] {
        assert!(fail("", &[("egress_ports", port)]).contains("`egress_ports` (EVERHOOK_EGRESS_PORTS): use 1 to 65535"));
    }
    assert!(fail("egress_hosts = ['https://a.example']", &[]).contains("in `egress_hosts`: use a host such as"));
    let proxy = fail("egress_proxy = 'socks5://user:hidden@a'", &[]);
    assert_eq!(
        proxy,
        "invalid `egress_proxy` (everhook.toml): use the form http://host:port or http://user:password@host:port"
    );
    assert!(fail("egress_proxy_resolves = true", &[]).contains("but `egress_proxy` is not: set both or none"));
    assert!(fail("slots = 5", &[]).starts_with("`slots_per_endpoint` is 250 but `slots` is 5"));
    assert!(fail("log_format = 'xml'", &[]).contains("use text or json"));
    assert!(fail("default_signature = 'rsa'", &[]).contains("use hmac256 or ed25519"));
    let short = fail(&format!("jwt_secret = '{}'", "x".repeat(31)), &[]);
    assert_eq!(
        short,
        "`jwt_secret` is too short: use at least 32 bytes, such as the output of `openssl rand -base64 32`"
    );
    assert!(fail("x = [", &[]).starts_with("everhook.toml is not valid TOML"));
    assert!(fail("retry_schedule = [-1]", &[]).contains("invalid delay -1"));
    let empty = "`retry_schedule` is empty (EVERHOOK_RETRY_SCHEDULE): list the seconds before each retry";
    assert!(fail("", &[("retry_schedule", "")]).starts_with(empty));
    assert!(fail("retry_schedule = []", &[]).contains("`retry_schedule` is empty (everhook.toml)"));
    assert!(fail("", &[("retry_schedule", "1,,2")]).starts_with("invalid EVERHOOK_RETRY_SCHEDULE \"1,,2\""));
    assert!(fail("", &[("egress_allow", "10.0.0.0/8,")]).contains("invalid network \"\" in `egress_allow`"));
    for level in ["", "warning", "loud", "info,loud", "tokio_postgres=trace"] {
        let refused = fail("", &[("log_level", level)]);
        assert!(refused.starts_with(&format!("invalid `log_level` {level:?} (EVERHOOK_LOG_LEVEL): ")), "{refused}");
    }
}

#[test]
fn egress_is_https_to_public_addresses_and_other_ports_than_those_of_services() {
    let config = check("", &[], Flags::default()).unwrap();
    assert!(config.egress.https_only && config.egress_proxy.is_none());
    let refused = |url: &str| config.egress.check_url(url).unwrap_err().to_string();
    assert!(refused("http://example.com/").contains("EVERHOOK_HTTPS_ONLY=false"));
    assert!(refused("https://10.0.0.1/").contains("EVERHOOK_EGRESS_ALLOW"));
    assert!(refused("https://example.com:6379/").contains("EVERHOOK_EGRESS_PORTS"));
    let variables = [
        ("egress_allow", "10.0.0.0/8"),
        ("egress_deny", "10.1.0.0/16,192.0.2.1"),
        ("egress_hosts", "10.0.0.1,*.example.com"),
        ("egress_ports", "80,6379"),
        ("https_only", "false"),
        ("egress_proxy", "http://user:pass@proxy.test:4750"),
        ("egress_proxy_resolves", "true"),
    ];
    let config = check("", &variables, Flags::default()).unwrap();
    for url in ["http://10.0.0.1/", "http://a.example.com:6379/"] {
        assert!(config.egress.check_url(url).is_ok(), "{url}");
    }
    for url in ["http://10.0.0.2/", "http://10.1.0.1/", "http://example.com/", "https://a.example.com/"] {
        assert!(config.egress.check_url(url).is_err(), "{url}");
    }
    assert!(config.egress_proxy.unwrap().resolves());
}

#[test]
fn a_database_that_nobody_can_connect_to_is_refused() {
    let fail = |file: &str| check(file, &[], Flags::default()).map(drop).unwrap_err();
    assert_eq!(
        fail("database = 'mysql://x'"),
        "invalid `database` (everhook.toml): expected a URL that starts with postgres://"
    );
    assert!(
        fail("database = 'postgres://'")
            .starts_with("invalid `database` (everhook.toml): the PostgreSQL URL names no host")
    );
    assert!(fail("database = ''").starts_with("invalid `database` (everhook.toml): expected a URL"));
    assert!(fail("database = 'postgres://db/x?nonsense=1'").contains("not a PostgreSQL connection URL"));
    let direct = "database = 'postgres://db/x'\ndatabase_direct = 'postgres://'";
    assert!(fail(direct).starts_with("invalid `database_direct` (everhook.toml): the PostgreSQL URL names no host"));
    assert!(fail("database_direct = 'postgres://db/x'").contains("but `database` is not: set `database`"));
    assert!(fail("database_pool = 1").starts_with("invalid `database_pool` 1"));
    let outbox = "[[outbox]]\nname = 'a'\ndatabase = 'postgres://'";
    assert!(fail(outbox).starts_with("invalid `database` of `[[outbox]]` \"a\": the PostgreSQL URL names no host"));
    assert!(fail("database_tenant_role = 'tenant'").contains("but `database` is not: set `database`"));
    let pooled = "database = 'postgres://db/x'\ndatabase_tenant_role = 'tenant'\ndatabase_pooler = true";
    assert!(fail(pooled).contains("cannot be used with a pooler"));
    let quoted = "database = 'postgres://db/x'\ndatabase_tenant_role = 'a -c b'";
    assert!(fail(quoted).starts_with("invalid `database_tenant_role` (everhook.toml)"));
    let both = "database = 'postgres://db/x'\ndatabase_direct = 'postgres://db/x'\ndatabase_tenant_role = 'tenant'";
    let config = check(both, &[("data", "./here")], Flags::default()).unwrap();
    assert!(matches!(config.store, StoreConfig::Sqlite { .. }), "{:?}", config.store);
}

#[test]
fn secrets_are_redacted_where_settings_are_shown() {
    let mut settings = Settings::defaults();
    let file = "jwt_secret = 'hunter2hunter2hunter2hunter2hunter2'\ndatabase = 'postgres://me:/hunter2/@db:5432/x?password=hunter2'
        database_direct = 'postgres://me:x@hunter2@db/x'";
    settings.add_file(Path::new("everhook.toml"), file).unwrap();
    let shown = settings.show();
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("database = \"postgres://me:***@db:5432/x\" # everhook.toml"), "{shown}");
    assert!(shown.contains("database_direct = \"(redacted)\" # everhook.toml"), "{shown}");
    assert!(shown.contains("slots = 2000 # default"), "{shown}");

    let listed = serde_json::to_string(&settings.shown()).unwrap();
    assert!(!listed.contains("hunter2"), "{listed}");
    let secret = r#"{"name":"jwt_secret","value":"(redacted)","source":"everhook.toml"}"#;
    assert!(
        listed.contains(secret) && listed.contains(r#"{"name":"slots","value":2000,"source":"default"}"#),
        "{listed}"
    );
}

#[test]
fn a_configuration_can_be_logged_without_its_secrets() {
    let file = "jwt_secret = 'hunter2hunter2hunter2hunter2hunter2'
        database = 'postgres://me:hunter2@db/x'
        database_direct = 'postgres://me:hunter2@db:5433/x'
        [[outbox]]
        name = 'shop'
        database = 'postgres://me:hunter2@db/shop'";
    let logged = format!("{:?}", check(file, &[], Flags::default()).unwrap());
    assert!(!logged.contains("hunter2") && logged.contains("jwt_secret: Some((redacted))"), "{logged}");
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
    assert!(!settings.show().contains("hunter2") && settings.show().contains("postgres://me:***@db:5432/shop"));

    let fail = |file: &str| check(file, &[], Flags::default()).map(drop).unwrap_err();
    assert!(fail(&shop.repeat(2)).contains("duplicate `name`"));
    assert!(fail("[[outbox]]\nname = 'main'\nsqlite = 'x'").contains("duplicate `name`"));
    assert!(fail("[[outbox]]\nsqlite = 'x'").contains("has no `name`"));
    assert!(fail("[[outbox]]\nname = 'a b'\nsqlite = 'x'").contains("invalid `name`"));
    assert!(fail("[[outbox]]\nname = 'a'").contains("set either `database` or `sqlite`"));
    assert!(fail("[[outbox]]\nname = 'a'\nsqlite = 'x'\npoll_interval_ms = 1").contains("must be 5 to 3600000"));
    assert!(fail("[[outbox]]\nname = 'a'\nsqllite = 'x'").contains("did you mean `sqlite`?"));
    assert!(fail("[[outbox]]\nname = 'a'\nsqlite = 'x'\npooler = true").contains("`pooler` requires `database`"));
    assert!(
        fail("[[outbox]]\nname = 'a'\nsqlite = 'x'\nenvironment = 'a b'").contains("invalid `environment` \"a b\"")
    );
    assert!(fail("outbox = 3").contains("`[[…]]` in the configuration file"));
    let variable = check("", &[("outbox", "x")], Flags::default()).map(drop).unwrap_err();
    assert!(variable.contains("`[[…]]` in the configuration file"), "{variable}");
}

#[test]
fn unknown_variables_warn_with_the_nearest_setting_and_service_links_do_not() {
    let mut settings = Settings::defaults();
    let given = [
        ("lease", "3"),
        ("port", "8071"),
        ("port", "tcp://10.96.0.7:8071"),
        ("service_host", "10.96.0.7"),
        ("log_leve", "x"),
    ];
    settings.add_variables(variables(&given)).unwrap();
    assert_eq!(
        settings.warnings(),
        [
            "unknown variable EVERHOOK_LEASE is ignored: did you mean EVERHOOK_LEASE_SECONDS?",
            "unknown variable EVERHOOK_PORT is ignored: `everhook config init` prints every setting",
            "unknown variable EVERHOOK_LOG_LEVE is ignored: did you mean EVERHOOK_LOG_LEVEL?",
        ]
    );
    settings.check().unwrap();
}

#[test]
fn a_variable_that_is_not_text_is_refused() {
    let variable = Variable { name: "EVERHOOK_DATA".to_owned(), value: None };
    let refused = Settings::defaults().add_variables(vec![variable]).unwrap_err();
    assert_eq!(refused.to_string(), "invalid EVERHOOK_DATA: expected UTF-8");
}

#[test]
fn the_listener_for_operators_is_one_of_its_own() {
    assert_eq!(check("", &[], Flags::default()).unwrap().listen_ops, None);
    let listen_ops =
        |value: &str| check("", &[("listen_ops", value)], Flags::default()).map(|config| config.listen_ops);
    assert_eq!(listen_ops("").unwrap(), None);
    assert_eq!(listen_ops("127.0.0.1:8072").unwrap().unwrap().port(), 8072);
    assert!(listen_ops("8072").unwrap_err().contains("invalid `listen_ops` \"8072\" (EVERHOOK_LISTEN_OPS)"));
    assert!(listen_ops("127.0.0.1:8071").unwrap_err().contains("use another port"));
    let flags = Flags { listen_ops: Some("127.0.0.1:9".to_owned()), ..Flags::default() };
    assert_eq!(check("", &[("listen_ops", "127.0.0.1:8")], flags).unwrap().listen_ops.unwrap().port(), 9);
}

#[test]
fn the_public_url_is_the_beginning_of_links() {
    let public = |url: &str| check("", &[("public_url", url)], Flags::default()).map(|config| config.public_url);
    assert_eq!(public(""), Ok(None));
    assert_eq!(public("https://hooks.example.com"), Ok(Some("https://hooks.example.com".to_owned())));
    assert_eq!(public("http://a.example:81/hooks/"), Ok(Some("http://a.example:81/hooks".to_owned())));
    for bad in
        ["hooks.example.com", "ftp://a.example", "https://", "https:///a", "https://a?b", "https://a#b", "https://u@a"]
    {
        let refused = public(bad).unwrap_err();
        assert!(refused.contains("invalid `public_url`") && refused.contains("EVERHOOK_PUBLIC_URL"), "{refused}");
    }
}
