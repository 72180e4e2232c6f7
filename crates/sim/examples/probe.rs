use onpath_sim::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let mut c =
        if a.iter().any(|x| x == "drawn") { SimConfig::from_seed(a[1].parse().unwrap()) } else { SimConfig::default() };
    c.seed = a[1].parse().unwrap();
    c.operations = a[2].parse().unwrap();
    for x in &a[3..] {
        match x.as_str() {
            "notx" => c.workload.transactions = false,
            "nouser" => c.workload.users = false,
            "loss" => {
                c.world.loss = 0.1;
                c.world.duplicate = 0.1;
                c.world.reorder = 0.2
            }
            "loss10" => c.world.loss = 0.1,
            "kill" => c.world.crash_every = 400,
            "power" => {
                c.world.crash_every = 400;
                c.world.power_loss = true
            }
            "sync" => c.world.commit = world::Commit::Sync,
            "m1" => c.mounts = 1,
            "m2" => c.mounts = 2,
            "only" => c.sessions = 0,
            "p2" => c.world.processes = 2,
            "s1" => c.world.shards = 1,
            "s3" => c.world.shards = 3,
            "s4" => c.world.shards = 4,
            "drawn" | "say" => {}
            "print" => println!("{c:#?}"),
            x => panic!("{x}"),
        }
    }
    let t = std::time::Instant::now();
    let o = if a.iter().any(|x| x == "say") {
        onpath_sim::run::run_narrated(&c, Some(Box::new(|l| println!("{l}"))))
    } else {
        run(&c)
    };
    let s = t.elapsed().as_secs_f64();
    for v in o.violations.iter().take(3) {
        println!("VIOLATION {v}");
    }
    println!(
        "seed {} ops {} {:.0} ops/s names {} trace {:x} v={} {:?} {:?}",
        o.seed,
        o.operations,
        o.operations as f64 / s,
        o.names_max,
        o.trace,
        o.violations.len(),
        o.counters,
        o.checks
    );
}
