//! Tests of the address list against a second implementation, and of URLs that have deceived other parsers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn strict() -> Egress {
    Egress::default()
}

fn allowing(nets: &[&str]) -> Egress {
    Egress::new(nets.iter().map(|net| net.parse().unwrap()).collect(), false)
}

#[track_caller]
fn check_ips(egress: &Egress, want: bool, ips: &[&str]) {
    for ip in ips {
        assert_eq!(egress.permits(ip.parse().unwrap()), want, "{ip}");
    }
}

#[track_caller]
fn check_url(text: &str, want: Result<&str, BadUrl>) {
    assert_eq!(strict().check_url(text).map(String::from), want.map(str::to_owned), "{text:?}");
}

#[test]
fn public_addresses_are_permitted() {
    check_ips(&strict(), true, &["1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1"]);
    check_ips(&strict(), true, &["168.63.129.15", "192.0.1.1", "198.17.0.1", "223.255.255.255"]);
    check_ips(&strict(), true, &["2606:4700::1111", "2a00:1450:4001:81b::200e", "2001:200::1", "2003::1", "3ffe::1"]);
}

#[test]
fn metadata_addresses_are_denied() {
    check_ips(&strict(), false, &["169.254.169.254", "169.254.169.253", "169.254.169.123", "169.254.170.2"]);
    check_ips(&strict(), false, &["169.254.170.23", "169.254.0.23", "100.100.100.200", "192.0.0.192", "168.63.129.16"]);
    check_ips(&strict(), false, &["fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"]);
}

#[test]
fn special_ipv6_addresses_are_denied() {
    check_ips(&strict(), false, &["::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:0:7f00:1"]);
    check_ips(&strict(), false, &["64:ff9b::7f00:1", "64:ff9b:1::1", "100::1", "100:0:0:1::1", "5f00::1", "fc00::1"]);
    check_ips(&strict(), false, &["fe80::1", "fec0::1", "ff02::1", "fe80::5efe:7f00:1", "2001::1", "2001:1ff::1"]);
    check_ips(
        &strict(),
        false,
        &["2001:db8::1", "2002:7f00:1::", "2620:4f:8000::1", "3fff::1", "3fff:fff::1", "4000::"],
    );
}

#[test]
fn what_the_operator_allows_is_permitted_and_no_more() {
    let egress = allowing(&["127.0.0.0/8", "fd00:1::/32"]);
    check_ips(&egress, true, &["127.0.0.1", "127.255.0.9", "fd00:1::5", "::ffff:127.0.0.1", "1.1.1.1"]);
    check_ips(&egress, false, &["10.0.0.1", "::1", "fd00:2::5", "::ffff:10.0.0.1", "::ffff:1.1.1.1"]);
    // An IPv6 block does not allow the IPv4 addresses embedded in it.
    check_ips(&allowing(&["::/0"]), false, &["127.0.0.1", "::ffff:127.0.0.1"]);
}

#[test]
fn names_that_no_name_server_knows_are_refused() {
    check_url("https://my_host.example/", Ok("https://my_host.example/"));
    check_url("https://_a.b-c.example./", Ok("https://_a.b-c.example./"));
    let label = "x".repeat(63);
    check_url(&format!("https://{label}.example/"), Ok(&format!("https://{label}.example/")));
    for host in
        [&format!("x{label}.example"), &[label.as_str(); 4].join("."), "a!b.example", "a..b", "-a.example", "a,b"]
    {
        check_url(&format!("https://{host}/"), Err(BadUrl::Name));
    }
}

#[test]
fn plain_urls_are_taken_and_canonicalised() {
    check_url("https://example.com", Ok("https://example.com/"));
    check_url("http://EXAMPLE.com:8080/a?b=c&d", Ok("http://example.com:8080/a?b=c&d"));
    check_url("https://[2606:4700::1111]:8443/x", Ok("https://[2606:4700::1111]:8443/x"));
    check_url("https://bücher.example/ü", Ok("https://xn--bcher-kva.example/%C3%BC"));
    // A name is checked when it has been resolved, that is, when a request is sent.
    check_url("http://metadata.google.internal/", Ok("http://metadata.google.internal/"));
}

#[test]
fn every_notation_of_a_forbidden_address_is_refused() {
    for host in [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "0x7f000001",
        "2130706433",
        "017700000001",
        "0",
        "127.0.0.1.",
        "127.0.0.1:8080",
        "%31%32%37.0.0.1",
        "１２７.０.０.１",
        "127。0。0。1",
        "①②⑦.0.0.1",
        "localhost",
        "LocalHost:8080",
        "localhost.",
        "shop.localhost",
        "[::1]",
        "[::]",
        "[::ffff:7f00:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:8.8.8.8]",
        "[64:ff9b::7f00:1]",
        "[fe80::1]",
        "169.254.169.254",
        "10.0.0.1",
        "168.63.129.16",
    ] {
        check_url(&format!("http://{host}/"), Err(BadUrl::Forbidden));
    }
}

#[test]
fn localhost_is_taken_where_a_loopback_address_is_allowed() {
    for net in ["127.0.0.0/8", "127.0.0.1/32", "::1/128"] {
        for host in ["localhost:9000", "shop.localhost", "localhost."] {
            assert!(allowing(&[net]).check_url(&format!("http://{host}/")).is_ok(), "{net} {host}");
        }
    }
    assert_eq!(allowing(&["10.0.0.0/8"]).check_url("http://localhost/"), Err(BadUrl::Forbidden));
    assert!(strict().check_url("http://mylocalhost/").is_ok());
}

#[test]
fn urls_that_parsers_read_differently_are_refused() {
    for url in ["http:\\\\10.0.0.1", "http://a.com\\@10.0.0.1", "http://exa\tmple.com", "http://exa\nmple.com"] {
        check_url(url, Err(BadUrl::Ambiguous));
    }
    for url in [" https://example.com", "https://example.com/a b", "https://example.com\0"] {
        check_url(url, Err(BadUrl::Ambiguous));
    }
    for url in ["http://1.2.3.4@10.0.0.1", "http://user:pass@example.com", "http://:p@example.com"] {
        check_url(url, Err(BadUrl::Userinfo));
    }
    for url in ["example.com", "//example.com", "http://[fe80::1%25eth0]/", "http://a.com:65536", "http://1.2.3.4.5.6"]
    {
        assert!(matches!(strict().check_url(url), Err(BadUrl::Unparsable(_))), "{url}");
    }
    // Punycode that contains only ASCII.
    assert!(matches!(strict().check_url("http://xn--localhost-/"), Err(BadUrl::Unparsable(_))));
}

#[test]
fn the_other_rules_for_urls_hold() {
    check_url("ftp://example.com", Err(BadUrl::Scheme));
    check_url("file:///etc/passwd", Err(BadUrl::Scheme));
    check_url("javascript:alert(1)", Err(BadUrl::Scheme));
    check_url("http://", Err(BadUrl::NoHost));
    check_url("http://./", Err(BadUrl::NoHost));
    check_url("http://example.com:0/", Err(BadUrl::Port));
    check_url("http://example.com/#top", Err(BadUrl::Fragment));
    let host = "http://example.com/";
    check_url(&format!("{host}{}", "a".repeat(URL_BYTES_MAX - host.len() + 1)), Err(BadUrl::TooLong));
    check_url(&format!("{host}{}", "ü".repeat(1000)), Err(BadUrl::TooLong));
    assert!(strict().check_url(&format!("{host}{}", "a".repeat(URL_BYTES_MAX - host.len()))).is_ok());
}

#[test]
fn https_only_refuses_plain_http() {
    let egress = Egress::new(Vec::new(), true);
    assert_eq!(egress.check_url("http://example.com"), Err(BadUrl::HttpsOnly));
    assert!(egress.check_url("https://example.com").is_ok());
    assert_eq!(egress.check_url("http://127.0.0.1/"), Err(BadUrl::Forbidden));
}

#[test]
fn plain_http_to_an_allowed_loopback_address_works_for_development() {
    let allow = ["127.0.0.0/8", "10.0.0.0/8"].map(|net| net.parse().unwrap()).to_vec();
    let egress = Egress::new(allow, true);
    for host in ["127.0.0.1", "127.9.9.9", "localhost", "shop.localhost"] {
        assert!(egress.check_url(&format!("http://{host}:9000/")).is_ok(), "{host}");
    }
    for host in ["10.0.0.1", "localhost.example", "127.0.0.1.nip.example"] {
        assert_eq!(egress.check_url(&format!("http://{host}:9000/")), Err(BadUrl::HttpsOnly), "{host}");
    }
}

#[test]
fn a_denied_network_is_denied_in_every_form_and_although_it_is_allowed() {
    let nets = |nets: &[&str]| nets.iter().map(|net| net.parse().unwrap()).collect::<Vec<IpNet>>();
    let egress = Egress {
        deny: nets(&["10.1.0.0/16", "8.8.8.0/24", "2606:4700::/32"]),
        nat64: true,
        ..Egress::new(nets(&["10.0.0.0/8", "::/0"]), false)
    };
    check_ips(&egress, true, &["10.0.0.1", "8.8.4.4", "64:ff9b::8.8.4.4"]);
    check_ips(&egress, false, &["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "8.8.8.8", "2606:4700::1111"]);
    check_ips(&egress, false, &["64:ff9b::8.8.8.8", "::ffff:8.8.8.8"]);
}

#[test]
fn with_nat64_the_address_inside_decides() {
    check_ips(&strict(), false, &["64:ff9b::8.8.8.8"]);
    let egress = Egress { nat64: true, ..strict() };
    check_ips(&egress, true, &["64:ff9b::8.8.8.8"]);
    check_ips(&egress, false, &["64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b:1::8.8.8.8", "64:ff9a::1"]);
    let egress = Egress { nat64: true, ..allowing(&["10.0.0.0/8"]) };
    check_ips(&egress, true, &["64:ff9b::10.0.0.1"]);
}

#[test]
fn ports_of_services_are_refused_unless_the_operator_lists_them() {
    for port in [22, 25, 2375, 6379] {
        check_url(&format!("https://example.com:{port}/"), Err(BadUrl::PortForbidden));
    }
    let egress = Egress { ports: vec![443, 25], ..strict() };
    assert!(egress.check_url("https://example.com/").is_ok());
    assert!(egress.check_url("http://example.com:25/").is_ok());
    assert_eq!(egress.check_url("http://example.com/"), Err(BadUrl::PortForbidden));
}

#[test]
fn only_listed_hosts_are_permitted() {
    let hosts = ["hooks.example.com", "*.partner.example", "8.8.8.8"].map(|host| host.parse().unwrap()).to_vec();
    let egress = Egress { hosts, ..strict() };
    for host in ["hooks.example.com", "HOOKS.example.com.", "a.b.partner.example", "8.8.8.8", "0x08080808"] {
        assert!(egress.check_url(&format!("https://{host}/")).is_ok(), "{host}");
    }
    for host in ["example.com", "partner.example", "evilpartner.example", "8.8.4.4", "hooks.example.com.evil.test"] {
        assert_eq!(egress.check_url(&format!("https://{host}/")), Err(BadUrl::HostForbidden), "{host}");
    }
}

#[test]
fn the_servers_own_listeners_are_refused() {
    let own =
        |text: &str| Egress { own: vec![text.parse().unwrap()], ..allowing(&["127.0.0.0/8", "::1/128", "0.0.0.0/32"]) };
    for (listener, url) in [
        ("127.0.0.1:8071", "http://127.0.0.1:8071/"),
        ("127.0.0.1:8071", "http://localhost:8071/"),
        ("127.0.0.1:8071", "http://[::ffff:127.0.0.1]:8071/"),
        ("127.0.0.1:8071", "http://0.0.0.0:8071/"),
        ("0.0.0.0:8071", "http://127.7.7.7:8071/"),
        ("[::]:8071", "http://127.0.0.1:8071/"),
        ("[::]:8071", "http://[::1]:8071/"),
    ] {
        assert_eq!(own(listener).check_url(url), Err(BadUrl::Own), "{listener} {url}");
    }
    for (listener, url) in [("127.0.0.1:8071", "http://127.0.0.1:8072/"), ("127.0.0.1:8071", "http://127.0.0.2:8071/")]
    {
        assert!(own(listener).check_url(url).is_ok(), "{listener} {url}");
    }
    let wildcard = own("0.0.0.0:8071");
    assert!(wildcard.is_own("192.0.2.7:8071".parse().unwrap(), |_| true));
    assert!(!wildcard.is_own("192.0.2.7:8071".parse().unwrap(), |_| false));
    assert!(!wildcard.is_own("192.0.2.7:8072".parse().unwrap(), |_| true));
}

/// A second, independent implementation of the list.
fn denied_by_octets(ip: Ipv4Addr) -> bool {
    matches!(
        ip.octets(),
        [0 | 10 | 127 | 224..=255, ..]
            | [100, 64..=127, ..]
            | [168, 63, 129, 16]
            | [169, 254, ..]
            | [172, 16..=31, ..]
            | [192, 0, 0 | 2, _]
            | [192, 31, 196, _]
            | [192, 52, 193, _]
            | [192, 88, 99, _]
            | [192, 168, ..]
            | [192, 175, 48, _]
            | [198, 18 | 19, ..]
            | [198, 51, 100, _]
            | [203, 0, 113, _]
    )
}

#[test]
fn two_writings_of_the_ipv4_list_agree_on_every_24() {
    for high in 0..1u32 << 24 {
        let ip = Ipv4Addr::from(high << 8 | 16);
        assert_eq!(is_public(ip.into()), !denied_by_octets(ip), "{ip}");
    }
}

/// A second, independent implementation of the IPv6 rules, on the groups of an address.
fn ipv6_is_public(ip: Ipv6Addr) -> bool {
    match ip.segments() {
        [0x2001, second, ..] => second >= 0x200 && second != 0xdb8,
        [0x2002, ..] => false,
        [0x2620, 0x4f, 0x8000, ..] => false,
        [0x3fff, second, ..] => second >= 0x1000,
        [first, ..] => (0x2000..=0x3fff).contains(&first),
    }
}

#[test]
fn two_writings_of_the_ipv6_rules_agree_on_every_24_and_at_every_edge() {
    for high in 0..1u128 << 24 {
        let ip = Ipv6Addr::from_bits(high << 104);
        assert_eq!(is_public(ip.into()), ipv6_is_public(ip), "{ip}");
    }
    for net in IPV6_DENIED.into_iter().chain([IPV6_GLOBAL, NAT64]) {
        let (first, last) = (net.network().to_bits(), net.broadcast().to_bits());
        for bits in [first.wrapping_sub(1), first, first + 1, last - 1, last, last.wrapping_add(1)] {
            let ip = Ipv6Addr::from_bits(bits);
            assert_eq!(is_public(ip.into()), ipv6_is_public(ip), "{ip}");
        }
    }
}

proptest! {
    #[test]
    fn two_writings_of_the_ipv6_rules_agree(bits: u128, global: bool) {
        let ip = Ipv6Addr::from_bits(if global { bits >> 3 | 1 << 125 } else { bits });
        prop_assert_eq!(strict().permits(ip.into()), ipv6_is_public(ip));
    }

    #[test]
    fn a_denied_network_wins_over_every_other_rule(bits: u32, len in 0u8..=32, nat64: bool, form in 0..3) {
        let ip = Ipv4Addr::from(bits);
        let form: IpAddr = match form {
            0 => ip.into(),
            1 => ip.to_ipv6_mapped().into(),
            _ => Ipv6Addr::from_bits(0x64_ff9b << 96 | u128::from(bits)).into(),
        };
        let deny = vec![Ipv4Net::new(ip, len).unwrap().into()];
        let allow = vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()];
        let egress = Egress { deny, nat64, ..Egress::new(allow, false) };
        prop_assert!(!egress.permits(form));
    }

    #[test]
    fn nat64_is_never_freer_than_the_address_inside(bits: u32) {
        let egress = Egress { nat64: true, ..strict() };
        let outer = Ipv6Addr::from_bits(0x64_ff9b << 96 | u128::from(bits));
        prop_assert_eq!(egress.permits(outer.into()), egress.permits(Ipv4Addr::from(bits).into()));
    }

    #[test]
    fn two_writings_of_the_ipv4_list_agree(bits: u32) {
        let ip = Ipv4Addr::from(bits);
        prop_assert_eq!(strict().permits(ip.into()), !denied_by_octets(ip));
    }

    #[test]
    fn a_mapped_address_is_never_freer_than_the_address_inside(bits: u32, net: u32, len in 0u8..=32) {
        let ip = Ipv4Addr::from(bits);
        let mapped = IpAddr::V6(ip.to_ipv6_mapped());
        prop_assert!(!strict().permits(mapped));
        let some = Egress::new(vec![Ipv4Net::new(net.into(), len).unwrap().into(), "::/0".parse().unwrap()], false);
        prop_assert!(!some.permits(mapped) || some.permits(ip.into()));
    }

    #[test]
    fn only_global_unicast_ipv6_is_permitted(bits: u128) {
        let ip = Ipv6Addr::from(bits);
        prop_assert!(!strict().permits(ip.into()) || ip.segments()[0] >> 13 == 1);
    }

    #[test]
    fn any_text_is_judged_without_panic(text in ".{0,80}") {
        if let Ok(url) = strict().check_url(&text) {
            prop_assert_eq!(strict().check_url(url.as_str()), Ok(url));
        }
    }
}
