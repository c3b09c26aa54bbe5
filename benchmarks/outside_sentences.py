"""200 sentences for `benchmarks.outside`: what the model that comes with handloom should know, and what not."""

INSIDE = """
Wo ist der Bahnhof?
Ich habe heute keine Zeit.
Kannst du mir bitte helfen?
Wie spät ist es?
Meine Schwester wohnt in Berlin.
Das Wetter ist heute schön.
Wir gehen morgen ins Kino.
Er hat seinen Schlüssel verloren.
Was möchtest du trinken?
Sie spricht drei Sprachen.
Ich bin sehr müde.
Der Hund schläft unter dem Tisch.
Hast du meine Nachricht bekommen?
Es hat die ganze Nacht geregnet.
Tom kommt immer zu spät.
Ich verstehe diese Frage nicht.
Wann fährt der nächste Zug ab?
Meine Eltern sind im Urlaub.
Das Buch liegt auf dem Tisch.
Sie hat ihm ein Geschenk gekauft.
Ich möchte einen Kaffee, bitte.
Wie viel kostet das?
Er arbeitet in einem Krankenhaus.
Wir haben uns lange nicht gesehen.
Mach bitte die Tür zu.
Warum weinst du?
Die Kinder spielen im Garten.
Ich freue mich auf das Wochenende.
Hast du Hunger?
Mein Auto ist kaputt.
Sie ist größer als ihr Bruder.
Ich werde dich morgen anrufen.
Das war ein langer Tag.
Kennst du diese Frau?
Er trinkt jeden Morgen Tee.
Ich habe Angst vor Spinnen.
Können wir uns am Montag treffen?
Das Essen schmeckt gut.
Ich suche meine Brille.
Wir müssen jetzt gehen.
Sie hat den Film schon gesehen.
Der Lehrer erklärt die Aufgabe.
Ich glaube dir nicht.
Es ist zu kalt zum Schwimmen.
Hast du das Fenster geschlossen?
Mein Großvater ist gestern gestorben.
Wer hat dir das gesagt?
Ich lerne seit zwei Jahren Deutsch.
Maria liest eine Zeitung.
Er will Arzt werden.
Gib mir bitte das Salz.
Wir haben keine Milch mehr.
Sie lacht über seine Witze.
Ich kann heute nicht kommen.
Wie heißt deine Mutter?
Das ist nicht meine Schuld.
Die Katze sitzt auf dem Dach.
Er hat zu viel getrunken.
Ich muss noch meine Hausaufgaben machen.
Bist du verheiratet?
Der Bus ist schon weg.
Du hast einen Fehler gemacht.
Ich wünschte, ich wäre reich.
Sie kam nach Hause und ging ins Bett.
Wenn es regnet, bleiben wir zu Hause.
Hier darf man nicht rauchen.
Er fragte mich, ob ich ihn kenne.
Ich habe vergessen, das Licht auszumachen.
Das Mädchen singt ein Lied.
Wir brauchen mehr Geld.
Was hast du gestern gemacht?
Sein Zimmer ist immer sauber.
Ich mag keinen Fisch.
Zeig mir deine Hände.
Sie wartet auf den Bus.
Er ist vor einer Stunde gegangen.
Ich habe mich verlaufen.
Kann ich hier mit Karte bezahlen?
Das Kind hat Fieber.
Alle lachten, nur er nicht.
Vergiss deinen Regenschirm nicht.
Ich habe ihn noch nie gesehen.
Das Haus hat vier Zimmer.
Sie schreibt einen Brief an ihre Freundin.
Tom kann gut kochen.
Ich bin in Hamburg geboren.
Wie lange bist du schon hier?
Niemand wusste die Antwort.
Er fährt mit dem Fahrrad zur Arbeit.
Das macht nichts.
Ich hätte gern ein Zimmer mit Bad.
Warum hast du das getan?
Die Suppe ist zu heiß.
Ich stehe um sechs Uhr auf.
Sie sieht traurig aus.
Wir sind gute Freunde.
Bitte sprechen Sie langsamer.
Mein Bruder studiert in München.
Der Apfel ist rot.
Ich liebe dich.
"""

OUTSIDE = """
WO IST DER BAHNHOF?
ICH HABE HEUTE KEINE ZEIT.
KANNST DU MIR BITTE HELFEN?
MEINE SCHWESTER WOHNT IN BERLIN.
DAS WETTER IST HEUTE SCHÖN.
ER HAT SEINEN SCHLÜSSEL VERLOREN.
WAS MÖCHTEST DU TRINKEN?
DER HUND SCHLÄFT UNTER DEM TISCH.
ES HAT DIE GANZE NACHT GEREGNET.
WANN FÄHRT DER NÄCHSTE ZUG AB?
MEINE ELTERN SIND IM URLAUB.
MACH BITTE DIE TÜR ZU.
DIE KINDER SPIELEN IM GARTEN.
MEIN AUTO IST KAPUTT.
ICH WERDE DICH MORGEN ANRUFEN.
DAS ESSEN SCHMECKT GUT.
WIR MÜSSEN JETZT GEHEN.
DER LEHRER ERKLÄRT DIE AUFGABE.
ICH GLAUBE DIR NICHT.
WER HAT DIR DAS GESAGT?
BITTE NICHT RAUCHEN!
ACHTUNG! HEUTE GESCHLOSSEN!
WIR BRAUCHEN MEHR GELD.
VERGISS DEINEN REGENSCHIRM NICHT.
ICH LIEBE DICH.
Where is the station?
I have no time today.
Can you help me, please?
My sister lives in Berlin.
The weather is nice today.
He lost his keys yesterday.
What would you like to drink?
The dog is sleeping under the table.
It rained all night long.
When does the next train leave?
My parents are on holiday.
Please close the door.
The children are playing in the garden.
My car is broken.
I will call you tomorrow.
This soup is much too hot.
We have to go now.
The teacher explains the exercise.
I don't believe you.
Who told you that?
She is waiting for the bus.
They bought a new house last year.
We need more money.
Don't forget your umbrella.
I love you.
😀😀😀
🚂 🏠 ❤️
👍
😂 lol 😂
🍕🍕 🍺!
Ich 😍 dich 🥰🥰
🐶 + 🐱 = 🏡
☀️☀️🏖️ 🌊🌴
💔💔💔😭😭
🎉🎂🎁 🥳
¯\\_(ツ)_/¯
👩‍👩‍👧‍👦 🤷‍♀️
🇩🇪🇬🇧🇫🇷
🤖🧠⚡ 🔥🔥
🫠🫡🫶
Où est la gare ?
Je n'ai pas le temps aujourd'hui.
Pouvez-vous m'aider, s'il vous plaît ?
Il fait très beau ce matin.
Mes parents sont en vacances.
¿Dónde está la estación?
Hoy no tengo tiempo.
Mi hermana vive en Madrid.
Los niños juegan en el jardín.
Dov'è la stazione?
Oggi non ho tempo per te.
I bambini giocano nel giardino.
Onde fica a estação de trem?
Gdzie jest dworzec?
Dzisiaj nie mam czasu.
Hol van a pályaudvar?
Tren istasyonu nerede?
Missä rautatieasema on?
Где находится вокзал?
У меня сегодня нет времени.
Πού είναι ο σταθμός;
駅はどこですか？
火车站在哪里？
אין לי זמן היום.
أين المحطة؟
asdf jklö qwertz uiop
xkcd zzzz brrrgl fnord
lkjhgfdsa mnbvcxy
qqq www eee rrr
hgjfkd slaowie rutn vbcm
https://www.example.org/index.html?id=42&lang=de
SELECT name FROM users WHERE id = 3;
for (int i = 0; i < n; i++) { sum += a[i]; }
def f(x): return x ** 2 + 1
{"name": "Tom", "age": 7}
"""
