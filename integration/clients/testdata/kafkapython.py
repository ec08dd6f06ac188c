import sys
from datetime import datetime, timedelta, timezone
from kafka import KafkaProducer

brokers, topic = sys.argv[1:3]
T = datetime(2026, 1, 1, 0, 0, 5, 123000, timezone.utc)
p = KafkaProducer(bootstrap_servers=brokers, acks="all")


def send(key, name, value):
    p.send(topic, key=key.encode(), value=b"x", headers=[(name, value)]).get(30)


send("T/isoformat", "delay-until", T.isoformat().encode())
send("T/to_bytes", "delay-until", (1767225605123).to_bytes(8, "big"))
send("T/to_bytes of as many as it takes", "delay-until", (1767225605123).to_bytes(6, "big"))
send("S/epoch", "scheduler-epoch", b"%d" % int(T.timestamp()))
send("5m/timedelta", "delay-for", str(timedelta(minutes=5)).encode())
send("absent/empty", "delay-for", b"")
p.close()
