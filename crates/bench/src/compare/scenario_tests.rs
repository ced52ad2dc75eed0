//! Tests of scenario.rs, in a file of their own for its size.

use super::*;

const PLAN: &str = "stretch = 2\nclock = 0.5\nseconds = 20\nwarmup = 1\n";
const SIMULATED: &str = "about='x'\nrate=100\nduration=60\nservice={kind='lognormal',sigma=0.5}\n\
    [[server]]\nservice_ms=5\nnet_ms=0.2\nconcurrency=8\n\
    [[server.event]]\nat=10\nlasts=10\neffect='slow'\nfactor=20\n\
    [[server]]\ncount=2\nservice_ms=10\nnet_ms=10\nconcurrency=4\n";

fn parse(plan: &str, simulated: &str) -> Result<Scenario> {
    Scenario::parse("x".to_owned(), plan, simulated)
}

#[test]
fn the_scenarios_that_come_along_are_scenarios() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for entry in std::fs::read_dir(root.join("scenarios")).unwrap() {
        let scenario = Scenario::read(&entry.unwrap().path(), &root.join("../sim/scenarios"));
        let scenario = scenario.unwrap_or_else(|error| panic!("{error:#}"));
        for server in &scenario.servers {
            crate::model::check(&format!("{}={}", server.name, server.spec)).unwrap();
        }
        assert!(scenario.servers.iter().any(|server| server.best), "{}", scenario.name);
        assert!(scenario.hurried(2.0).unwrap().for_simulator(2).is_ok());
        count += 1;
    }
    assert!(count >= 10, "{count}");
}

#[test]
fn times_are_stretched_and_events_shortened() {
    let scenario = parse(PLAN, SIMULATED).unwrap();
    assert_eq!((scenario.rate, scenario.seconds), (50.0, 20.0));
    let names: Vec<_> = scenario.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["10ms", "20-20ms", "20-20ms-b"]);
    assert!(scenario.servers[0].spec.starts_with("network=0.400ms,service=lognormal:10.000ms:0.5,k=8,slow=1,"));
    let changes: Vec<_> = scenario.changes.iter().map(|change| (change.at, change.server, change.slow)).collect();
    assert_eq!(changes, [(5.0, 0, 20.0), (10.0, 0, 1.0)]);
    let best: Vec<_> = scenario.servers.iter().map(|server| server.best).collect();
    assert_eq!(best, [true, false, false]);
}

#[test]
fn the_simulator_is_given_the_same() {
    let text = parse(PLAN, SIMULATED).unwrap().for_simulator(3).unwrap();
    let again: Simulated = toml::from_str(&text).unwrap();
    assert_eq!((again.rate, again.duration, again.workers, again.server[0].service_ms), (50.0, 20.0, 3, 10.0));
    let hurried = parse(PLAN, SIMULATED).unwrap().hurried(4.0).unwrap();
    assert_eq!((hurried.changes[0].at, hurried.warmup, hurried.rate), (1.0, 0.2, 50.0));
}

#[test]
fn contradictions_are_refused() {
    assert!(parse(&PLAN.replace("stretch = 2", "stretch = 0"), SIMULATED).is_err());
    assert!(parse(&PLAN.replace("warmup = 1", "warmup = 20"), SIMULATED).is_err());
    assert!(parse(&format!("{PLAN}colour = 1\n"), SIMULATED).is_err(), "unknown word");
    assert!(parse(PLAN, &format!("balancers=3\n{SIMULATED}")).is_err());
    assert!(parse(PLAN, &format!("safe=0.5\n{SIMULATED}")).is_err());
    assert!(parse(PLAN, &format!("colour=3\n{SIMULATED}")).is_err(), "a word of the simulator that we do not know");
    assert!(parse(PLAN, &format!("watch={{server=9,from=1}}\n{SIMULATED}")).is_err());
}
