//! Agents that say what their workers can take.

use crate::harness::{Agent, Config, Crowd, Echo, HeldPort, Spillgate, Worker, expect_all_ok, get};

/// Two echoes with an agent each; the first agent says `text`.
struct Place {
    echoes: [Echo; 2],
    ports: [HeldPort; 2],
    agents: [Agent; 2],
    spillgate: Spillgate,
}

impl Place {
    fn start(text: &str, change: impl FnOnce(Config) -> Config) -> Place {
        let (echoes, ports) = ([Echo::start(), Echo::start()], [HeldPort::any(), HeldPort::any()]);
        let agents = [Agent::on(&ports[0], text), Agent::on(&ports[1], "up ready 100%\n")];
        let [first, second] = agents.each_ref().map(Agent::address);
        let config = Config::of(&echoes.each_ref().map(Echo::address))
            .pool(&format!("agents = [\"{first}\", \"{second}\"]"))
            .pool("agent_interval = \"20ms\"");
        let spillgate = Spillgate::start(change(config));
        Place { echoes, ports, agents, spillgate }
    }

    /// Wait until the agent of the first worker was asked with this outcome.
    #[track_caller]
    fn wait_outcome(&self, outcome: &str) -> serde_json::Value {
        let pool = self.spillgate.wait_pool(&format!("an agent that is {outcome}"), |pool| {
            pool["workers"][0]["agent"]["outcome"] == outcome
        });
        pool["workers"][0].clone()
    }
}

#[test]
fn a_worker_that_its_agent_drains_gets_nothing_until_it_is_ready() {
    let place = Place::start("drain\n", |config| config);
    let Place { echoes, agents, spillgate, .. } = &place;
    spillgate.wait_state(0, "draining");
    spillgate.wait_state(1, "up");
    expect_all_ok(&Crowd::of(spillgate.address(), 8, 3).finish());
    assert_eq!((echoes[0].seen().len(), echoes[1].seen().len()), (0, 24));
    let signs = spillgate.pool()["workers"][0]["signs"].clone();
    assert_eq!((&signs["agent"], &signs["probe"]), (&"draining".into(), &"up".into()));
    // A line that does not mention it changes nothing.
    agents[0].says("up 100%\n");
    place
        .spillgate
        .wait_pool("word of health", |pool| pool["workers"][0]["agent"]["health"] == "up");
    assert_eq!(spillgate.pool()["workers"][0]["state"], "draining");
    agents[0].says("ready\n");
    spillgate.wait_up(2);
}

#[test]
fn down_outlives_the_agent_that_said_it() {
    let mut place = Place::start("stopped # db lost\r\n", |config| config);
    place.spillgate.wait_state(0, "out: agent");
    assert_eq!(place.wait_outcome("heard")["agent"]["health"], "stopped: db lost");
    // The agent dies, then another takes its place.
    let [first, second] = place.agents;
    drop(first);
    place.agents = [Agent::on(&HeldPort::any(), ""), second];
    place.wait_outcome("silent");
    assert_eq!(place.spillgate.pool()["workers"][0]["state"], "out: agent");
    let table = place.spillgate.ctl(&["status"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("its agent says: stopped: db lost"), "{table}");
    let [_, second] = place.agents;
    place.agents = [Agent::on(&place.ports[0], "up\n"), second];
    place.spillgate.wait_up(2);
}

#[test]
fn maxconn_and_percent_bound_what_is_inside() {
    let slots = |config: Config| config.pool("slots = 4").pool("queue_len_max = 100");
    for (line, most) in [("maxconn:3 75%\n", 3), ("maxconn:1\n", 1), ("50%\n", 2)] {
        let place = Place::start(line, slots);
        let [granted, other] = place.echoes;
        granted.hold();
        other.hold();
        let spillgate = &place.spillgate;
        spillgate.wait_up(2);
        spillgate.wait_pool("granted slots", |pool| pool["slots"] == most + 4);
        let crowd = Crowd::of(spillgate.address(), 20, 1);
        granted.wait_inside(most);
        other.wait_inside(4);
        spillgate.wait_queue(20 - most - 4);
        granted.let_all_go();
        other.let_all_go();
        expect_all_ok(&crowd.finish());
        assert_eq!((granted.most_inside(), other.most_inside()), (most, 4), "{line}");
        assert_eq!(spillgate.metrics().sum("spillgate_worker_slots", &[]), most as u64 + 4);
    }
}

#[test]
fn what_is_not_understood_is_told_and_the_rest_holds() {
    let place = Place::start("bogus drain\n", |config| config);
    let worker = place.wait_outcome("unknown_word");
    assert_eq!(
        (&worker["state"], &worker["agent"]["unknown"]),
        (&"draining".into(), &"bogus".into())
    );
    place.spillgate.messages.wait_for("said 'bogus', not a word of it");
    // Without its end a line says nothing.
    place.agents[0].says("ready");
    assert_eq!(place.wait_outcome("incomplete")["state"], "draining");
    let metrics = place.spillgate.metrics();
    assert!(metrics.sum("spillgate_agent_reports_total", &[("outcome", "incomplete")]) > 0);
    place.agents[0].says("ready up\nmaint down\n");
    place.spillgate.wait_up(2);
}

#[test]
fn an_agent_that_says_up_cannot_overrule_a_worker_that_is_gone() {
    let place = Place::start("up ready\n", |config| config);
    place.spillgate.wait_up(2);
    let [mortal, other] = place.echoes;
    mortal.kill();
    for _ in 0..4 {
        assert_eq!(place.spillgate.ask(get("/")).status(), 200);
    }
    let pool = place.spillgate.wait_pool("it is out", |pool| {
        pool["workers"][0]["state"].as_str().is_some_and(|state| state.starts_with("out: re"))
    });
    assert_eq!(pool["workers"][0]["signs"]["agent"], "up");
    assert!(!other.seen().is_empty());
}

#[test]
fn an_agent_is_told_what_the_file_says() {
    let (echo, agent) = (Echo::start(), Worker::start());
    let config = Config::of(&[echo.address()])
        .pool(&format!("agents = [\"{}\"]", agent.address()))
        .pool("agent_send = \"app 1\\n\"");
    let spillgate = Spillgate::start(config);
    let mut link = agent.accept();
    link.expect("app 1\n");
    link.send("maint\n");
    spillgate.wait_state(0, "out: maint");
}

#[test]
fn a_worker_that_reports_too_much_load_gets_less_and_the_client_hears_nothing_of_it() {
    let echo = Echo::holding();
    echo.answers("200 OK\r\nEndpoint-Load-Metrics: TEXT application_utilization=2.0");
    let spillgate = Spillgate::start(Config::of(&[echo.address()]).pool("slots = 4"));
    spillgate.wait_up(1);
    let mut clients = [(); 4].map(|()| spillgate.connect());
    for client in &mut clients {
        client.send(get("/"));
    }
    echo.wait_inside(4);
    echo.let_all_go();
    for mut client in clients {
        let answer = client.receive_response();
        assert_eq!((answer.status(), answer.get("endpoint-load-metrics")), (200, None));
    }
    spillgate.wait_pool("fewer slots", |pool| pool["workers"][0]["slots"] == 2);
}
