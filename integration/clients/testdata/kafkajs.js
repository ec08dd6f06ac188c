const { Kafka, logLevel } = require('kafkajs')

const [brokers, topic] = process.argv.slice(2)
const T = new Date(Date.UTC(2026, 0, 1, 0, 0, 5, 123))
const long = Buffer.alloc(8)
long.writeBigInt64BE(BigInt(T.getTime()))
const messages = []
const send = (key, headers) => messages.push({ key, value: 'x', headers })

send('T/toISOString', { 'delay-until': T.toISOString() })
send('T/JSON.stringify', { 'delay-until': JSON.stringify(T) })
send('T/getTime', { 'delay-until': String(T.getTime()) })
send('T/seconds', { 'delay-until': String(T / 1000) })
send('T/Buffer', { 'delay-until': long })
send('T/twice, the last counts', { 'delay-until': ['1', T.toISOString()] })
send('T/alias', { 'deliver-at': T.toISOString() })
send('T/CloudEvents', { ce_id: '1', ce_deliverat: T.toISOString() })
send('refused/String', { 'delay-until': String(T) })
send('refused/toUTCString', { 'delay-until': T.toUTCString() })
send('5m/number', { 'delay-for': String(5 * 60 * 1000) })
send('5m/text', { 'delay-for': '5 m' })
send('absent/undefined in JSON', { 'delay-for': JSON.stringify(null) })

async function main () {
  const producer = new Kafka({ brokers: [brokers], logLevel: logLevel.ERROR }).producer()
  await producer.connect()
  await producer.send({ topic, acks: -1, messages })
  await producer.disconnect()
}
main().catch(err => { console.error(err); process.exit(1) })
