import json, struct, sys
from datetime import datetime, timedelta, timezone
from confluent_kafka import Producer

brokers, topic = sys.argv[1:3]
T = datetime(2026, 1, 1, 0, 0, 5, 123000, timezone.utc)
M = datetime(2026, 1, 1, tzinfo=timezone.utc)
p = Producer({"bootstrap.servers": brokers, "acks": "all"})
failed = []


def send(key, **headers):
    named = [(n.replace("_", "-"), v) for n, v in headers.items()]
    p.produce(topic, key=key, value="x", headers=named, on_delivery=lambda err, _: err and failed.append(err))


send("T/isoformat", delay_until=T.isoformat())
send("T/str", delay_until=str(T))
send("T/timestamp", delay_until=str(T.timestamp()))
send("T/milliseconds", delay_until=str(int(T.timestamp() * 1000)))
send("T/strftime", delay_until=T.strftime("%Y-%m-%dT%H:%M:%S.%f%z"))
send("T/json", delay_until=json.dumps(T.isoformat()))
send("T/json number", delay_until=json.dumps(T.timestamp()))
send("T/struct", delay_until=struct.pack(">q", 1767225605123))
send("T/struct little-endian", delay_until=struct.pack("<q", 1767225605123))
send("T/in a zone", delay_until=T.astimezone(timezone(timedelta(hours=5, minutes=30))).isoformat())
send("M/date", delay_until=M.date().isoformat())
send("refused/naive", delay_until=T.replace(tzinfo=None).isoformat())
send("refused/naive str", delay_until=str(T.replace(tzinfo=None)))
send("refused/ctime", delay_until=T.ctime())
send("5m/timedelta", delay_for=str(timedelta(minutes=5)))
send("5m/milliseconds", delay_for=str(300000))
send("5m/double", delay_for=str(timedelta(minutes=5) / timedelta(milliseconds=1)))
send("5m/struct int", delay_for=struct.pack(">i", 300000))
send("5m/alias", x_delay="300000")
send("absent/None", delay_for=None)
send("absent/json None", delay_for=json.dumps(None))
if p.flush(30) or failed:
    sys.exit(f"not acknowledged: {failed}")
