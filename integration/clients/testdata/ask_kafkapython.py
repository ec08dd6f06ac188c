# Writes what it is told to, a line of JSON for each record, and says where that lies. See doc.go.
import json, sys
from kafka import KafkaProducer

brokers = sys.argv[1]
p = None
for line in sys.stdin:
    r = json.loads(line)
    if r is None:
        p.close()
        p = None
        print("null", flush=True)
        continue
    p = p or KafkaProducer(bootstrap_servers=brokers, acks="all")
    at = p.send(r["topic"], key=r["key"] and r["key"].encode(), value=r["value"] and r["value"].encode(), partition=r["partition"],
                headers=[(name, value.encode()) for name, value in r["headers"].items()]).get(30)
    print(json.dumps({"partition": at.partition, "offset": at.offset}), flush=True)
