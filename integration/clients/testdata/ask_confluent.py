# Writes what it is told to, a line of JSON for each record, and says where that lies. See doc.go.
import json, sys
from confluent_kafka import Producer

brokers = sys.argv[1]
p = None
for line in sys.stdin:
    r = json.loads(line)
    if r is None:
        p = None
        print("null", flush=True)
        continue
    p = p or Producer({"bootstrap.servers": brokers, "acks": "all"})
    where = []
    p.produce(r["topic"], key=r["key"], value=r["value"], headers=r["headers"], on_delivery=lambda err, msg: where.append((err, msg)),
              **({} if r["partition"] is None else {"partition": r["partition"]}))
    if p.flush(30) or where[0][0]:
        sys.exit(f"not acknowledged: {where}")
    print(json.dumps({"partition": where[0][1].partition(), "offset": where[0][1].offset()}), flush=True)
